// SIMD over windows: lane l of a vector belongs to window l of a group. Points come in window by window and leave
// window by window, so they are transposed in registers on the way.
//
// Everything here has internal linkage: the file is compiled once for each kind of processor, and the linker must not
// merge the copies.
#pragma once
#include <cstring>
#include <type_traits>
#include <utility>

#include "work.h"

namespace neuralrde {
namespace {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

template <class T>
struct Lanes {
  typedef T V __attribute__((vector_size(BYTES)));
  static constexpr int n = BYTES / sizeof(T);
};
template <class T>
using Vector = typename Lanes<T>::V;

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
inline void store(T* to, Vector<T> v) {
  std::memcpy(to, &v, sizeof v);
}

// The number of channels, known to the compiler where it is small: loops of two or three rounds cost more than their work.
template <int D>
struct Channels {
  explicit Channels(int64_t) {}
  constexpr operator int64_t() const { return D; }
};
template <>
struct Channels<0> {
  const int64_t count;
  explicit Channels(int64_t count) : count(count) {}
  operator int64_t() const { return count; }
};

// Swap the off-diagonal halves of 2S x 2S blocks: with S = 1, 2, 4, ... this transposes a square of registers.
template <class T, int S, int... I>
inline void swap_halves(Vector<T>& a, Vector<T>& b, std::integer_sequence<int, I...>) {
  constexpr int n = Lanes<T>::n;
  const Vector<T> low = __builtin_shufflevector(a, b, ((I & S) == 0 ? I : I - S + n)...);
  const Vector<T> high = __builtin_shufflevector(a, b, ((I & S) == 0 ? I + S : I + n)...);
  a = low;
  b = high;
}
template <class T, int S = 1>
inline void transpose(Vector<T>* rows) {
  constexpr int n = Lanes<T>::n;
  if constexpr (S < n) {
    for (int i = 0; i < n; i++)
      if ((i & S) == 0) swap_halves<T, S>(rows[i], rows[i + S], std::make_integer_sequence<int, n>());
    transpose<T, 2 * S>(rows);
  }
}

// to[column] = column of the matrix whose rows start at rows[lane].
template <class T>
inline void load_columns(Vector<T>* to, const T* const* rows, int64_t columns, const T* end) {
  constexpr int n = Lanes<T>::n;
  if (columns < n) {
    // One square would read too far to the right: harmless, unless it leaves the array.
    bool inside = true;
    for (int l = 0; l < n; l++) inside &= rows[l] + n <= end;
    if (!inside) {
      for (int64_t c = 0; c < columns; c++)
        for (int l = 0; l < n; l++) to[c][l] = rows[l][c];
      return;
    }
    Vector<T> square[n];
    for (int l = 0; l < n; l++) square[l] = load<T>(rows[l]);
    transpose<T>(square);
    for (int64_t c = 0; c < columns; c++) to[c] = square[c];
    return;
  }
  for (int64_t c = 0;; c += n) {
    if (c > columns - n) c = columns - n;  // the last square overlaps the one before
    Vector<T> square[n];
    for (int l = 0; l < n; l++) square[l] = load<T>(rows[l] + c);
    transpose<T>(square);
    for (int l = 0; l < n; l++) to[c + l] = square[l];
    if (c == columns - n) return;
  }
}

template <class T>
inline void store_columns(T* const* rows, const Vector<T>* from, int64_t columns, int lanes) {
  constexpr int n = Lanes<T>::n;
  if (columns < n) {
    for (int l = 0; l < lanes; l++)
      for (int64_t c = 0; c < columns; c++) rows[l][c] = from[c][l];
    return;
  }
  for (int64_t c = 0;; c += n) {
    if (c > columns - n) c = columns - n;
    Vector<T> square[n];
    for (int l = 0; l < n; l++) square[l] = from[c + l];
    transpose<T>(square);
    for (int l = 0; l < lanes; l++) store<T>(rows[l] + c, square[l]);
    if (c == columns - n) return;
  }
}

// Rows of fewer columns than lanes that follow each other in memory, as log-signatures do: each row is written whole
// register wide and the next row overwrites what was too much; only the last is written exactly.
template <class T>
inline void store_short_rows(T* to, const Vector<T>* from, int64_t columns, int lanes) {
  constexpr int n = Lanes<T>::n;
  Vector<T> square[n];
  for (int c = 0; c < n; c++) square[c] = from[c < columns ? c : 0];
  transpose<T>(square);
  int l = 0;
  for (; (l * columns + n <= lanes * columns) && l < lanes; l++) store<T>(to + l * columns, square[l]);
  for (; l < lanes; l++) std::memcpy(to + l * columns, &square[l], columns * sizeof(T));
}

// A group of windows, one a lane. Lanes beyond the last window repeat it, and their results are not stored.
template <class T>
struct Group {
  static constexpr int n = Lanes<T>::n;
  const T* points[n];   // first point of each window
  int64_t offset[n];    // of that point in the gradient
  int64_t counts[n];    // increments in each window
  int64_t shortest, longest;
  int64_t dilation;
  int lanes;
  const T* end;
  int64_t ahead;        // how far behind these windows the next group's lie

  Group(const Plan& plan, const Work<T>& work, int64_t first, int64_t last) {
    lanes = last - first < n ? int(last - first) : n;
    end = work.path + work.samples * work.length * plan.channels;
    shortest = INT64_MAX;
    longest = 0;
    dilation = work.spans.dilation;
    for (int l = 0; l < n; l++) {
      const int64_t number = first + (l < lanes ? l : lanes - 1);
      const int64_t sample = number / work.spans.windows, window = number % work.spans.windows;
      const int64_t row = sample % work.spans.rows;
      const int64_t point = sample * work.length + work.spans.start(row, window);
      points[l] = work.path + point * plan.channels;
      offset[l] = (work.places ? work.places[number] : point) * plan.channels;
      counts[l] = work.spans.increments(row, window);
      if (counts[l] < shortest) shortest = counts[l];
      if (counts[l] > longest) longest = counts[l];
    }
    ahead = (points[n - 1] - points[0]) / (n - 1) * n;
    if (ahead < 0 || ahead * sizeof(T) > (size_t(1) << 19)) ahead = 0;  // beyond the second cache
  }

  // Points [from, from + count) of every window; beyond a window's end its last point again, which drives nothing.
  void load_points(Vector<T>* to, int64_t from, int64_t count, int64_t channels) const {
    if (from + count - 1 <= shortest) {
      // Points that lie side by side are one wide row.
      const int64_t rounds = dilation == 1 ? 1 : count, columns = dilation == 1 ? count * channels : channels;
      const T* rows[n];
      for (int64_t t = 0; t < rounds; t++) {
        for (int l = 0; l < n; l++) {
          rows[l] = points[l] + (from + t) * dilation * channels;
          // Sixteen streams side by side are too many for the processor to foresee.
          if (ahead)
            for (int64_t c = 0; c < columns; c += 64 / sizeof(T)) __builtin_prefetch(rows[l] + ahead + c, 0, 2);
        }
        load_columns<T>(to + t * channels, rows, columns, end);
      }
      return;
    }
    for (int l = 0; l < n; l++)
      for (int64_t t = 0; t < count; t++) {
        const int64_t point = from + t < counts[l] ? from + t : counts[l];
        for (int64_t c = 0; c < channels; c++) to[t * channels + c][l] = points[l][point * dilation * channels + c];
      }
  }

  // Gradients of points from + begin, ..., from + last of every window, as far as it goes; those of point `from` are x[0 .. channels).
  void store_points(T* gradient, int64_t from, int64_t begin, int64_t last, const Vector<T>* x, int64_t channels) const {
    T* rows[n];
    for (int l = 0; l < n; l++) rows[l] = gradient + offset[l] + (from + begin) * channels;
    if (from + last <= shortest) {
      store_columns<T>(rows, x + begin * channels, (last - begin + 1) * channels, lanes);
      return;
    }
    for (int l = 0; l < lanes; l++)
      for (int64_t t = begin; t <= last && from + t <= counts[l]; t++)
        for (int64_t c = 0; c < channels; c++) rows[l][(t - begin) * channels + c] = x[t * channels + c][l];
  }
};

template <class T>
inline bool all_zero(Vector<T> v) {
  for (int l = 0; l < Lanes<T>::n; l++)
    if (!(v[l] == 0)) return false;
  return true;
}

// Write the log-signatures of a group; answers whether they are finite.
template <class T>
inline bool store_words(const Plan& plan, const Work<T>& work, int64_t first, int lanes, const Vector<T>* words) {
  constexpr int n = Lanes<T>::n;
  Vector<T> bad = {};
  for (int64_t w = 0; w < plan.words; w++) bad += words[w] - words[w];  // NaN for NaN and for infinity, else zero
  T* const to = work.out + first * plan.words;
  if (plan.words < n) {
    store_short_rows<T>(to, words, plan.words, lanes);
  } else {
    T* rows[n];
    for (int l = 0; l < n; l++) rows[l] = to + l * plan.words;
    store_columns<T>(rows, words, plan.words, lanes);
  }
  return all_zero<T>(bad);
}

template <class T>
inline void load_cotangents(const Plan& plan, const Work<T>& work, int64_t first, int lanes, Vector<T>* words) {
  constexpr int n = Lanes<T>::n;
  const T* rows[n];
  for (int l = 0; l < n; l++) rows[l] = work.cotangent + (first + (l < lanes ? l : lanes - 1)) * plan.words;
  load_columns<T>(words, rows, plan.words, work.cotangent + work.samples * work.spans.windows * plan.words);
}

}  // namespace
}  // namespace neuralrde
