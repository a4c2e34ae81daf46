// Random looks at series: a mixture of channels, thinned out, the log-signatures of its windows, and how many windows
// lie above thresholds or win contests, in each part of a series. Everything about one look at one series happens while
// it is in the cache: nothing but the counts is written.
//
// Lanes are windows. A window has few points and few channels, time among them, so that Chen's relation is written out by
// the compiler: channels and depth are constants.
#pragma once
#include "lanes.h"

namespace neuralrde {
namespace {

typedef int32_t Flags __attribute__((vector_size(BYTES)));

constexpr bool is_lyndon(int i, int j) { return i < j; }
constexpr bool is_lyndon(int i, int j, int k) { return (i < j && i < k) || (i == j && j < k); }
constexpr bool is_lyndon(int i, int j, int k, int l) {  // of two letters
  return i == 0 && l == 1 && (j <= k);
}

// The log-signature of paths of D channels to depth N, increment by increment; see chen.h for the formulas. Of the last
// level only Lyndon words are followed.
template <int D, int N>
struct Path {
  using V = Vector<float>;
  V a[D] = {}, b[D * D] = {}, c[D * D * D] = {}, e[N == 4 ? D * D * D * D : 1] = {};

  inline void add(const V* dx) {
    if constexpr (N == 4) {
#pragma GCC unroll 4
      for (int i = 0; i < D; i++) {
        const V one = dx[i] * 0.25f + a[i];
#pragma GCC unroll 4
        for (int j = 0; j < D; j++) {
          const V two = one * (dx[j] * (1.0f / 3)) + b[i * D + j];
#pragma GCC unroll 4
          for (int k = 0; k < D; k++) {
            const V three = two * (dx[k] * 0.5f) + c[(i * D + j) * D + k];
#pragma GCC unroll 4
            for (int l = 0; l < D; l++)
              if (is_lyndon(i, j, k, l)) e[((i * D + j) * D + k) * D + l] += three * dx[l];
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < D; i++) {
      const V one = dx[i] * (1.0f / 3) + a[i];
#pragma GCC unroll 4
      for (int j = 0; j < D; j++) {
        const V two = one * (dx[j] * 0.5f) + b[i * D + j];
#pragma GCC unroll 4
        for (int k = 0; k < D; k++)
          if (N > 3 || is_lyndon(i, j, k)) c[(i * D + j) * D + k] += two * dx[k];
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < D; i++) {
      const V one = dx[i] * 0.5f + a[i];
#pragma GCC unroll 4
      for (int j = 0; j < D; j++) b[i * D + j] += one * dx[j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < D; i++) a[i] += dx[i];
  }

  // The coefficients of Lyndon words in log(1 + x) = x - x^2 / 2 + x^3 / 3 - x^4 / 4, without that of time alone.
  inline V* logarithm(V* to) const {
    const auto B = [&](int i, int j) { return b[i * D + j]; };
    const auto C = [&](int i, int j, int k) { return c[(i * D + j) * D + k]; };
    for (int i = 1; i < D; i++) *to++ = a[i];
    for (int i = 0; i < D; i++)
      for (int j = 0; j < D; j++)
        if (is_lyndon(i, j)) *to++ = B(i, j) - 0.5f * a[i] * a[j];
    for (int i = 0; i < D; i++)
      for (int j = 0; j < D; j++)
        for (int k = 0; k < D; k++)
          if (is_lyndon(i, j, k))
            *to++ = C(i, j, k) - 0.5f * (a[i] * B(j, k) + B(i, j) * a[k]) + (1.0f / 3) * a[i] * a[j] * a[k];
    if constexpr (N == 4)
      for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
          for (int k = 0; k < D; k++)
            for (int l = 0; l < D; l++)
              if (is_lyndon(i, j, k, l)) {
                const V pairs = a[i] * C(j, k, l) + B(i, j) * B(k, l) + C(i, j, k) * a[l];
                const V triples = a[i] * (a[j] * B(k, l) + B(j, k) * a[l]) + B(i, j) * a[k] * a[l];
                const V all = a[i] * a[j] * a[k] * a[l];
                *to++ = e[((i * D + j) * D + k) * D + l] - 0.5f * pairs + (1.0f / 3) * triples - 0.25f * all;
              }
    return to;
  }
};

struct Looker {
  using V = Vector<float>;
  static constexpr int n = Lanes<float>::n;
  static constexpr int BLOCK = 16;  // groups of windows whose log-signatures are kept, and counted, together
  static constexpr int64_t most_words = Looks::most_words, group = Looks::group;

  const Looks& looks;
  float* x[2];     // the mixed channels of one series, point after point
  V* words;        // (groups of windows, words): of one block
  int32_t* counts; // of one look

  Looker(const Looks& looks, void* space) : looks(looks) {
    words = static_cast<V*>(space);
    x[0] = reinterpret_cast<float*>(words + BLOCK * most_words);
    x[1] = x[0] + looks.length;
    counts = reinterpret_cast<int32_t*>(x[1] + looks.length);
  }
  static size_t bytes(const Looks& looks) {
    const size_t counted = looks.counted();
    return BLOCK * most_words * sizeof(V) + 2 * size_t(looks.length) * sizeof(float) + counted * sizeof(int32_t);
  }

  void mix(int64_t s, int64_t draw) {
    const Look look = looks.look(draw);
    const int64_t own = looks.lengths[s];
    for (int64_t q = 0; q < (look.lag ? 1 : look.kept); q++) {
      for (int64_t i = 0; i < own; i++) x[q][i] = 0.0f;
      for (int64_t channel = 0; channel < looks.channels; channel++) {
        const float weight = looks.mixtures[(draw * looks.channels + channel) * 2 + q];
        if (weight == 0.0f) continue;
        const float* const from = looks.seen[look.kind] + (s * looks.channels + channel) * looks.length;
        for (int64_t i = 0; i < own; i++) x[q][i] += weight * from[i];
      }
    }
    if (look.lag)
      for (int64_t i = 0; i < own; i++) x[1][i] = x[0][i > look.lag ? i - look.lag : 0];
  }

  // Where the windows of a group start; lanes beyond the last window repeat it.
  struct Starts {
    int64_t at[n];
    bool side_by_side = true;

    Starts(int64_t first, int64_t end, int64_t own, int64_t room) {
      for (int64_t l = 0; l < n; l++) {
        at[l] = Looks::start(first + l < end ? first + l : end - 1, own, room);
        side_by_side &= at[l] == at[0] + l;
      }
    }
  };

  // One point of the windows that start at `starts`; a series that is shorter than a window stands still at its end.
  V points(const float* channel, const Starts& starts, int64_t offset, int64_t last) const {
    if (starts.side_by_side && starts.at[n - 1] + offset <= last) return load<float>(channel + starts.at[0] + offset);
    V found;
    for (int l = 0; l < n; l++) found[l] = channel[starts.at[l] + offset < last ? starts.at[l] + offset : last];
    return found;
  }

  template <int D, int N>
  int64_t follow(const Look& look, const Starts& starts, int64_t last, V* to) const {
    Path<D, N> path;
    V before[D], dx[D];
    dx[0] = V{} + float(look.dilation) / float(look.span);
    for (int c = 1; c < D; c++) before[c] = points(x[c - 1], starts, 0, last);
    V* const levels = path_levels<D>(to, look.kind, before);
    for (int64_t offset = look.dilation; offset <= look.span; offset += look.dilation) {
      for (int c = 1; c < D; c++) {
        const V now = points(x[c - 1], starts, offset, last);
        dx[c] = now - before[c], before[c] = now;
      }
      path.add(dx);
    }
    path.logarithm(to);
    return levels - to;
  }
  // Behind the log-signature stands where the window starts, except of changes.
  template <int D>
  static V* path_levels(V* to, int kind, const V* first) {
    V* at = to + Looks::words(D - 1);
    if (kind != Looks::CHANGES)
      for (int c = 1; c < D; c++) *at++ = first[c];
    return at;
  }

  // Windows [begin, end) of one look at one mixed series, block after block; `use(block's first window, its windows, words)`.
  template <class Use>
  void each_block(int64_t s, const Look& look, int64_t begin, int64_t end, const Use& use) {
    const int64_t last = looks.lengths[s] - 1, own = looks.windows_of(s, look.span);
    const int64_t room = last > look.span ? last - look.span : 0;
    for (int64_t first = begin; first < end; first += BLOCK * n) {
      const int64_t count = end - first < BLOCK * n ? end - first : BLOCK * n;
      int64_t width = 0;
      for (int64_t g = 0; g * n < count; g++) {
        const Starts starts(first + g * n, first + count, own, room);
        V* const to = words + g * most_words;
        width = look.kept == 1 ? follow<2, 4>(look, starts, last, to) : follow<3, 3>(look, starts, last, to);
      }
      use(first, count, width);
    }
  }

  // Log-signatures themselves, (samples, windows, words), of the first look.
  void write_words(int64_t begin, int64_t end) {
    const Look look = looks.look(0);
    for (int64_t s = begin; s < end; s++) {
      mix(s, 0);
      each_block(s, look, 0, looks.windows_of(s, look.span), [&](int64_t first, int64_t count, int64_t width) {
        for (int64_t w = 0; w < count; w++)
          for (int64_t k = 0; k < width; k++)
            looks.out[(s * looks.most + first + w) * width + k] = words[(w / n) * most_words + k][w % n];
      });
    }
  }

  // Counts, (samples, parts, features).
  void write_counts(int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; s++)
      for (int64_t draw = 0; draw < looks.draws; draw++) {
        const Look look = looks.look(draw);
        const int64_t own = looks.windows_of(s, look.span);
        mix(s, draw);
        for (int64_t part = 0; part < looks.parts; part++) {
          std::memset(counts, 0, looks.counted() * sizeof(int32_t));
          int64_t all = 0;
          each_block(s, look, looks.first_of(part, own), looks.first_of(part + 1, own),
                     [&](int64_t, int64_t count, int64_t width) {
                       all = count_above(draw, count, width);
                       all += count_winners(draw, count, width, counts + all);
                     });
          float* const to = looks.out + (s * looks.parts + part) * looks.features + looks.firsts[draw];
          for (int64_t i = 0; i < all; i++) to[i] = float(counts[i]);
        }
      }
  }

  static int32_t sum(Flags flags) {
    int32_t total = 0;
    for (int l = 0; l < n; l++) total += flags[l];
    return total;
  }
  // Which lanes of a group are windows.
  static Flags real(int64_t count, int64_t g) {
    Flags flags;
    for (int l = 0; l < n; l++) flags[l] = g * n + l < count ? -1 : 0;
    return flags;
  }

  // Values of MAPS linear maps of the words of group g, one behind the other in a row of `stride`.
  template <int MAPS>
  void mapped(const float* map, int64_t stride, int64_t width, int64_t g, V* value) const {
    const V* const from = words + g * most_words;
    for (int m = 0; m < MAPS; m++) value[m] = from[0] * map[m];
    for (int64_t k = 1; k < width; k++)
      for (int m = 0; m < MAPS; m++) value[m] += from[k] * map[k * stride + m];
  }

  // Counts of the words themselves, scaled, and of the maps: (thresholds, words + maps).
  int64_t count_above(int64_t draw, int64_t count, int64_t width) {
    constexpr int MAPS = 4;
    constexpr int64_t most = Looks::most_thresholds;
    const int64_t groups = (count + n - 1) / n, all = width + looks.maps, number = looks.thresholds;
    const float* const at = looks.at + draw * number * (most_words + looks.maps);
    const Flags tail = real(count, groups - 1);
    const auto threshold = [&](int64_t q, int64_t m) { return at[q * (most_words + looks.maps) + m]; };
    const auto count_one = [&](const V* value, int64_t step, int64_t m) {
      Flags above[most] = {};
      for (int64_t g = 0; g < groups; g++)
        for (int64_t q = 0; q < number; q++) {
          const Flags higher = value[g * step] > threshold(q, m);
          above[q] -= g + 1 < groups ? higher : higher & tail;
        }
      for (int64_t q = 0; q < number; q++) counts[q * all + m] += sum(above[q]);
    };
    const float* const scales = looks.scales + draw * most_words;
    V values[BLOCK];
    for (int64_t k = 0; k < width; k++) {
      for (int64_t g = 0; g < groups; g++) values[g] = words[g * most_words + k] * scales[k];
      count_one(values, 1, k);
    }
    V several[BLOCK * MAPS];
    int64_t m = 0;
    const float* const map = looks.map + draw * most_words * looks.maps;
    for (; m + MAPS <= looks.maps; m += MAPS) {
      for (int64_t g = 0; g < groups; g++) mapped<MAPS>(map + m, looks.maps, width, g, several + g * MAPS);
      for (int64_t i = 0; i < MAPS; i++) count_one(several + i, MAPS, width + m + i);
    }
    for (; m < looks.maps; m++) {
      for (int64_t g = 0; g < groups; g++) mapped<1>(map + m, looks.maps, width, g, values + g);
      count_one(values, 1, width + m);
    }
    return number * all;
  }

  // Counts of windows in which a map has the largest value of its group, then of the smallest: (2, rivals).
  int64_t count_winners(int64_t draw, int64_t count, int64_t width, int32_t* to) const {
    const int64_t groups = (count + n - 1) / n;
    const float* const map = looks.rival + draw * most_words * looks.rivals;
    const Flags tail = real(count, groups - 1);
    for (int64_t first = 0; first < looks.rivals; first += group) {
      Flags largest[group] = {}, smallest[group] = {};
      for (int64_t g = 0; g < groups; g++) {
        V value[group];
        mapped<group>(map + first, looks.rivals, width, g, value);
        V high = value[0], low = value[0];
        for (int i = 1; i < group; i++) {
          high = value[i] > high ? value[i] : high;
          low = value[i] < low ? value[i] : low;
        }
        const Flags seen = g + 1 < groups ? ~Flags{} : tail;
        for (int i = 0; i < group; i++) {
          largest[i] -= (value[i] == high) & seen;
          smallest[i] -= (value[i] == low) & seen;
        }
      }
      for (int i = 0; i < group; i++) {
        to[first + i] += sum(largest[i]);
        to[looks.rivals + first + i] += sum(smallest[i]);
      }
    }
    return 2 * looks.rivals;
  }
};

// Samples [begin, end).
inline void look(const Looks& looks, int64_t begin, int64_t end, void* space) {
  Looker looker(looks, space);
  if (looks.map)
    looker.write_counts(begin, end);
  else
    looker.write_words(begin, end);
}

}  // namespace
}  // namespace neuralrde
