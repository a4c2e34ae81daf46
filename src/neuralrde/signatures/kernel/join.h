// Log-signatures of runs of consecutive pieces, from those of the pieces, up to depth 3: pieces are joined two by two by
// the Baker-Campbell-Hausdorff formula, so that each round doubles their length. What `_join.py` says in Python.
//
// One sample at a time, words first and pieces side by side: all of it is then loops over rows.
#pragma once
#include <algorithm>
#include <cstring>

#include "work.h"

namespace neuralrde {
namespace {

constexpr int64_t COLUMNS = 128;  // of a tile, so that its rows stay in the first cache

// A matrix of rows, one for each word.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  T* operator[](int64_t row) const { return data + row * stride; }
};

template <class T>
struct Joiner {
  const Joins<T>& joins;
  const int64_t d, pairs, pieces, windows;
  Rows<T> level, next, block, other;
  T *found, *P, *Q, *zero;
  int64_t* index;

  Joiner(const Joins<T>& joins, void* space)
      : joins(joins), d(joins.channels), pairs(d * (d - 1) / 2), pieces(joins.pieces + 1), windows(joins.windows) {
    T* at = static_cast<T*>(space);
    const auto rows = [&](int64_t columns) {
      const Rows<T> made = {at, columns};
      at += joins.words * columns;
      return made;
    };
    level = rows(pieces), next = rows(pieces), block = rows(windows), other = rows(windows);
    found = at, at += joins.count * joins.words * windows;
    P = at, at += pairs * COLUMNS;
    Q = at, at += pairs * COLUMNS;
    zero = at, at += COLUMNS;
    std::fill(zero, zero + COLUMNS, T(0));
    index = static_cast<int64_t*>(joins.behind(at));
  }

  int64_t words_of(int depth) const { return depth == 1 ? d : depth == 2 ? d + pairs : joins.words_at_three; }

  // A piece followed by another, for `count` of them: columns of `left` and `right` from the given ones on.
  void join(Rows<T> out, int64_t to, Rows<T> left, int64_t l, Rows<T> right, int64_t r, int64_t count, int depth) const {
    for (int64_t from = 0; from < count; from += COLUMNS)
      tile({out.data + to + from, out.stride}, {left.data + l + from, left.stride}, {right.data + r + from, right.stride},
           std::min(COLUMNS, count - from), depth);
  }

  void tile(Rows<T> out, Rows<T> left, Rows<T> right, int64_t count, int depth) const {
    for (int64_t c = 0; c < d; c++) add(out[c], left[c], right[c], count);
    if (depth == 1) return;
    for (int64_t i = 0, q = 0; i < d; i++)
      for (int64_t j = i + 1; j < d; j++, q++)
        areas(out[d + q], left[d + q], right[d + q], left[i], left[j], right[i], right[j], P + q * COLUMNS,
              Q + q * COLUMNS, count);
    if (depth == 2) return;
    const auto pair = [&](int64_t i, int64_t j) { return (i * (2 * d - i - 1) / 2 + j - i - 1) * COLUMNS; };  // i < j
    for (int64_t i = 0, w = d + pairs; i < d; i++)
      for (int64_t j = i; j < d; j++)
        for (int64_t k = i + 1; k < d; k++, w++) {
          const T sign = j < k ? T(1) : T(-1);
          const int64_t jk = j < k ? pair(j, k) : j > k ? pair(k, j) : 0;
          triples(out[w], left[w], right[w], left[i], left[k], right[i], right[k], j == k ? zero : P + jk,
                  j == k ? zero : Q + jk, sign, i == j ? zero : P + pair(i, j), i == j ? zero : Q + pair(i, j), count);
        }
  }

  static void add(T* __restrict out, const T* __restrict a, const T* __restrict b, int64_t count) {
    for (int64_t t = 0; t < count; t++) out[t] = a[t] + b[t];
  }
  static void areas(T* __restrict out, const T* A, const T* B, const T* xi, const T* xj, const T* yi, const T* yj,
                    T* __restrict P, T* __restrict Q, int64_t count) {
    for (int64_t t = 0; t < count; t++) {
      const T a = A[t], b = B[t], C = xi[t] * yj[t] - xj[t] * yi[t];
      out[t] = (a + b) + T(0.5) * C;
      P[t] = T(0.5) * b + T(1.0 / 12) * C;
      Q[t] = T(0.5) * a + T(1.0 / 12) * C;
    }
  }
  static void triples(T* __restrict out, const T* a, const T* b, const T* xi, const T* xk, const T* yi, const T* yk,
                      const T* Pjk, const T* Qjk, T sign, const T* Pij, const T* Qij, int64_t count) {
    for (int64_t t = 0; t < count; t++)
      out[t] = (a[t] + b[t]) + (sign * (xi[t] * Pjk[t] - yi[t] * Qjk[t]) - (Pij[t] * xk[t] - Qij[t] * yk[t]));
  }

  // Columns `index` of the level: most often neighbours, after some that are before the first piece.
  void take(Rows<T> to, int64_t words) const {
    int64_t first = 0;
    while (first < windows && index[first] == 0) first++;
    int64_t side_by_side = first;
    while (side_by_side < windows && index[side_by_side] == index[first] + side_by_side - first) side_by_side++;
    for (int64_t w = 0; w < words; w++) {
      T* const row = to[w];
      const T* const from = level[w];
      if (side_by_side == windows) {
        std::fill(row, row + first, T(0));
        if (first < windows) std::memcpy(row + first, from + index[first], (windows - first) * sizeof(T));
      } else {
        for (int64_t q = 0; q < windows; q++) row[q] = from[index[q]];
      }
    }
  }

  Rows<T> result(int64_t number) const { return {found + number * joins.words * windows, windows}; }

  void sample(int64_t s) {
    const int64_t row = s % joins.rows;
    for (int64_t w = 0; w < joins.words; w++) level[w][0] = 0;  // piece 0 is none
    const T* from = joins.from + s * joins.pieces * joins.words;
    for (int64_t p = 1; p < pieces; p++, from += joins.words)
      for (int64_t w = 0; w < joins.words; w++) level[w][p] = from[w];
    int64_t begun = 0;
    for (int bit = 0; bit < joins.bits; bit++) {
      if (bit) {
        const int64_t by = std::min(int64_t(1) << (bit - 1), pieces), words = words_of(joins.level_depths[bit]);
        for (int64_t w = 0; w < words; w++) std::memcpy(next[w], level[w], by * sizeof(T));
        join(next, by, level, 0, level, by, pieces - by, joins.level_depths[bit]);
        std::swap(level, next);
      }
      for (int64_t number = 0; number < joins.count; number++) {
        if (!(joins.used[number] >> bit & 1)) continue;
        const int64_t* const counts = joins.counts + (number * joins.rows + row) * windows;
        const int64_t* const last = joins.last + row * windows;
        for (int64_t q = 0; q < windows; q++) {
          const int64_t done = counts[q] & ((int64_t(1) << bit) - 1), piece = last[q] + 1 - done;
          index[q] = (counts[q] >> bit & 1) && piece > 0 ? piece : 0;
        }
        const int depth = joins.depths[number];
        if (begun >> number & 1) {
          take(block, words_of(depth));
          join(other, 0, block, 0, result(number), 0, windows, depth);
          std::memcpy(result(number).data, other.data, words_of(depth) * windows * sizeof(T));
        } else {
          take(result(number), words_of(depth));
          begun |= int64_t(1) << number;
        }
      }
    }
  }

  bool run(int64_t begin, int64_t end) {
    T bad = 0;
    for (int64_t s = begin; s < end; s++) {
      sample(s);
      for (int64_t number = 0, offset = 0; number < joins.count; offset += words_of(joins.depths[number++])) {
        T* to = joins.out + s * windows * joins.total + offset;
        const Rows<T> rows = result(number);
        const int64_t words = words_of(joins.depths[number]);
        for (int64_t q = 0; q < windows; q++, to += joins.total)
          for (int64_t w = 0; w < words; w++) {
            const T value = rows[w][q];
            bad += value - value;  // NaN for NaN and for infinity, else zero
            to[w] = value;
          }
      }
    }
    return bad == 0;
  }
};

}  // namespace
}  // namespace neuralrde
