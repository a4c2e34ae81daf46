// Depth 4 and above: Chen's relation, one increment after the other, S <- S (x) exp(dx), then the logarithm.
//
// On level n, Horner's rule over the prefixes of a word i1 ... in:
//
//   h1 = dx_i1 / n + S(i1),   hk = h(k-1) dx_ik / (n - k + 1) + S(i1 ... ik),   S(i1 ... in) <- hn
//
// so words that begin alike share work: `Plan::trees` lists the prefixes of each level. Forward, level after level takes
// TILE increments at once: a level needs the levels below it as they were before each increment (`history`), and then
// every prefix keeps its TILE values of h in registers. The backward pass walks the path back one increment at a time,
// S <- S (x) exp(-dx), so that it needs no history, and pulls the cotangents back through each step.
#pragma once
#include "lanes.h"

namespace neuralrde {
namespace {

constexpr int MOST_DEPTH = 16;

template <class T>
struct Chen {
  using V = Vector<T>;
  static constexpr int n = Lanes<T>::n;
  const Plan& plan;
  const Work<T>& work;
  const int64_t d;
  const int depth;
  static constexpr int TILE = 8;
  V *S, *Sbar, *words, *x, *dx, *scaled, *dxbar, *pending, *h, *hbar, *tile, *history;
  int64_t powers[MOST_DEPTH + 1], starts[MOST_DEPTH + 1];  // number of words of k letters; where they start in the state

  Chen(const Plan& plan, const Work<T>& work, void* space, bool backward)
      : plan(plan), work(work), d(plan.channels), depth(plan.depth) {
    powers[0] = 1, starts[0] = -1;  // the empty word, just before all others
    for (int k = 1; k <= depth; k++) powers[k] = k < depth ? powers[k - 1] * d : 0, starts[k] = starts[k - 1] + powers[k - 1];
    V* at = static_cast<V*>(space);
    S = at, at += plan.below;
    words = at, at += plan.words;
    x = at, at += (TILE + 1) * d;
    tile = at, at += TILE * d * depth;
    history = at, at += TILE * plan.below;
    dx = at, at += d;
    scaled = at, at += d * depth;
    dxbar = at, at += d;
    pending = at, at += d;
    if (!backward) return;
    h = at, at += plan.below;
    hbar = at, at += plan.below;
    Sbar = at;
  }
  static size_t vectors(const Plan& plan, bool backward) {
    const size_t d = plan.channels, depth = plan.depth, state = plan.below + plan.words;
    return state + TILE * plan.below + d * (TILE + 1 + TILE * depth + depth + 3) + (backward ? 2 * plan.below + state : 0);
  }

  const Nodes& row(int level, int k) const { return plan.trees[(level - 1) * depth + k - 1]; }

  // ---- one increment at a time, for the way back ----------------------------------------------------------------

  void scale_increments() {
    for (int q = 1; q <= depth; q++)
      for (int64_t c = 0; c < d; c++) scaled[(q - 1) * d + c] = dx[c] * T(1.0 / q);
  }

  // The prefixes' h of one level, row k at h + starts[k].
  void prefixes(int level) {
    for (int k = 1; k < level; k++) {
      const Nodes& nodes = row(level, k);
      const V* const by = scaled + (level - k) * d;
      const V* const above = h + (k > 1 ? starts[k - 1] : 0);
      V* const to = h + starts[k];
      if (k == 1)
        for (int64_t q = 0; q < nodes.count; q++) to[q] = by[nodes.letter[q]] + S[nodes.word[q]];
      else
        for (int64_t q = 0; q < nodes.count; q++)
          to[q] = above[nodes.parent[q]] * by[nodes.letter[q]] + S[nodes.word[q]];
    }
  }

  // The last level is left out: no cotangent looks at it.
  void step() {
    scale_increments();
    for (int level = depth - 1; level > 1; level--) {
      prefixes(level);
      const Nodes& nodes = row(level, level);
      const V* const above = h + starts[level - 1];
      for (int64_t q = 0; q < nodes.count; q++) S[nodes.word[q]] += above[nodes.parent[q]] * dx[nodes.letter[q]];
    }
    for (int64_t c = 0; c < d; c++) S[c] += dx[c];
  }

  // Cotangents through one step: S is the state before it, Sbar the cotangent after it and then before it.
  void pull_back_step() {
    for (int64_t c = 0; c < d; c++) dxbar[c] = Sbar[c];
    for (int level = 2; level <= depth; level++) {
      prefixes(level);
      for (int k = level; k >= 1; k--) {
        const Nodes& nodes = row(level, k);
        const T factor = T(1.0 / (level - k + 1));
        const V* const by = scaled + (level - k) * d;
        const int64_t above_start = k > 1 ? starts[k - 1] : 0;
        const V *const above = h + above_start, *const bars = hbar + (k < level ? starts[k] : 0);
        V* const up = hbar + above_start;
        if (k > 1)
          for (int64_t q = 0; q < row(level, k - 1).count; q++) up[q] = V{};
        for (int64_t q = 0; q < nodes.count; q++) {
          V bar;
          if (k == level)
            bar = Sbar[nodes.word[q]];
          else
            bar = bars[q], Sbar[nodes.word[q]] += bar;
          if (k == 1) {
            dxbar[nodes.letter[q]] += factor * bar;
          } else {
            up[nodes.parent[q]] += bar * by[nodes.letter[q]];
            dxbar[nodes.letter[q]] += factor * bar * above[nodes.parent[q]];
          }
        }
      }
    }
  }

  using Factors = uint32_t[MOST_DEPTH][MOST_DEPTH + 1];
  // Where letters i to j of Lyndon word w stand in the state, for all i < j.
  void find_factors(int64_t w, int length, Factors& factors) const {
    const uint32_t* const number = plan.numbers + w * depth - 1;  // of the first j letters
    for (int j = 1; j <= length; j++) {
      factors[0][j] = uint32_t(starts[j]) + number[j];
      for (int i = 1; i < j; i++)
        factors[i][j] = uint32_t(starts[j - i]) + number[j] - number[i] * uint32_t(powers[j - i]);
    }
    if (length == depth) factors[0][depth] = uint32_t(plan.below + w);
  }

  // log(1 + x) of a Lyndon word is a sum over the ways to cut it into parts, with weight (-1)^(k+1) / k for k parts.
  // parts[k][j]: the sum over the ways to cut its first j letters into k parts.
  void count_parts(int length, const Factors& factors, V parts[][MOST_DEPTH + 1]) const {
    for (int j = 1; j <= length; j++) parts[1][j] = S[factors[0][j]];
    for (int k = 2; k <= length; k++)
      for (int j = k; j <= length; j++) {
        V sum = {};
        for (int i = k - 1; i < j; i++) sum += parts[k - 1][i] * S[factors[i][j]];
        parts[k][j] = sum;
      }
  }
  static T weight(int k) { return (k % 2 ? T(1) : T(-1)) / T(k); }

  void logarithm() {
    V parts[MOST_DEPTH + 1][MOST_DEPTH + 1];
    Factors factors;
    for (int64_t w = 0, length = 1; w < plan.words; w++) {
      while (w >= plan.firsts[length + 1]) length++;
      find_factors(w, int(length), factors);
      count_parts(int(length), factors, parts);
      V sum = parts[1][length];
      for (int k = 2; k <= length; k++) sum += weight(k) * parts[k][length];
      words[w] = sum;
    }
  }

  // The cotangents of the log-signature stand in `words`, where the last level's coefficients would: these are not
  // looked at on the way back.
  void pull_back_logarithm() {
    V parts[MOST_DEPTH + 1][MOST_DEPTH + 1], bars[MOST_DEPTH + 1][MOST_DEPTH + 1];
    Factors factors;
    for (int64_t q = 0; q < plan.below + plan.words; q++) Sbar[q] = V{};
    for (int64_t w = 0, length = 1; w < plan.words; w++) {
      while (w >= plan.firsts[length + 1]) length++;
      find_factors(w, int(length), factors);
      count_parts(int(length), factors, parts);
      for (int k = 1; k <= length; k++) {
        for (int j = 1; j < length; j++) bars[k][j] = V{};
        bars[k][length] = weight(k) * words[w];
      }
      for (int k = length; k >= 2; k--)
        for (int j = k; j <= length; j++)
          for (int i = k - 1; i < j; i++) {
            bars[k - 1][i] += bars[k][j] * S[factors[i][j]];
            Sbar[factors[i][j]] += bars[k][j] * parts[k - 1][i];
          }
      for (int j = 1; j <= length; j++) Sbar[factors[0][j]] += bars[1][j];
    }
  }

  // dx / q of channel c, for the TILE increments.
  const V* increments(int q, int64_t c) const { return tile + ((q - 1) * d + c) * TILE; }

  // Words of `level` that begin with node q of row k, whose values of h are given.
  void walk(int level, int k, int64_t q, const V* prefix) {
    const Nodes &nodes = row(level, k), &below = row(level, k + 1);
    for (int64_t child = nodes.children[q]; child < nodes.children[q + 1]; child++) {
      const V* const by = increments(level - k, below.letter[child]);
      const int64_t word = below.word[child];
      if (k + 1 < level) {
        V longer[TILE];
        for (int t = 0; t < TILE; t++) longer[t] = prefix[t] * by[t] + history[word * TILE + t];
        walk(level, k + 1, child, longer);
        continue;
      }
      V sum = S[word];
      if (level < depth)
        for (int t = 0; t < TILE; t++) {
          history[word * TILE + t] = sum;
          sum += prefix[t] * by[t];
        }
      else
        for (int t = 0; t < TILE; t++) sum += prefix[t] * by[t];
      S[word] = sum;
    }
  }

  // Follow the path through a group of windows, up to level `last`; zero, or NaN in lanes that met NaN or infinity.
  V follow(const Group<T>& group, int last) {
    for (int64_t q = 0; q < plan.below + plan.words; q++) S[q] = V{};
    group.load_points(x, 0, 1, d);
    V bad = {};
    for (int64_t from = 0; from < group.longest; from += TILE) {
      const int64_t count = group.longest - from < TILE ? group.longest - from : TILE;
      group.load_points(x + d, from + 1, count, d);
      for (int64_t c = (count + 1) * d; c < (TILE + 1) * d; c++) x[c] = x[c - d];
      for (int64_t c = 0; c < d; c++)
        for (int t = 0; t < TILE; t++) {
          const V increment = x[(t + 1) * d + c] - x[t * d + c];
          bad += increment - increment;
          for (int q = 1; q <= depth; q++) tile[((q - 1) * d + c) * TILE + t] = increment * T(1.0 / q);
          history[c * TILE + t] = S[c];
          S[c] += increment;
        }
      for (int level = 2; level <= last; level++)
        for (int64_t q = 0; q < row(level, 1).count; q++) {
          const int64_t c = row(level, 1).letter[q];
          V prefix[TILE];
          for (int t = 0; t < TILE; t++) prefix[t] = increments(level, c)[t] + history[c * TILE + t];
          walk(level, 1, q, prefix);
        }
      for (int64_t c = 0; c < d; c++) x[c] = x[TILE * d + c];
    }
    return bad;
  }

  bool forward(int64_t begin, int64_t end) {
    bool finite = true;
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      const V bad = follow(group, depth);
      logarithm();
      for (int64_t c = 0; c < d; c++) words[c] += bad;
      finite &= store_words<T>(plan, work, first, group.lanes, words);
    }
    return finite;
  }

  void backward(int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      follow(group, depth - 1);
      load_cotangents<T>(plan, work, first, group.lanes, words);
      pull_back_logarithm();
      // A point ends one increment and begins another: what it owes to the later one is pending.
      for (int64_t c = 0; c < d; c++) pending[c] = V{};
      for (int64_t t = group.longest; t >= 1; t--) {
        group.load_points(x, t - 1, 2, d);
        for (int64_t c = 0; c < d; c++) dx[c] = x[c] - x[d + c];
        step();
        for (int64_t c = 0; c < d; c++) dx[c] = -dx[c];
        scale_increments();
        pull_back_step();
        for (int l = 0; l < n; l++)
          if (t > group.counts[l])
            for (int64_t c = 0; c < d; c++) dxbar[c][l] = 0;
        for (int l = 0; l < group.lanes; l++)
          if (t <= group.counts[l])
            for (int64_t c = 0; c < d; c++)
              work.gradient[group.offset[l] + t * d + c] = dxbar[c][l] - pending[c][l];
        for (int64_t c = 0; c < d; c++) pending[c] = dxbar[c];
      }
      for (int l = 0; l < group.lanes; l++)
        for (int64_t c = 0; c < d; c++) work.first[(first + l) * d + c] = -pending[c][l];
    }
  }
};

}  // namespace
}  // namespace neuralrde
