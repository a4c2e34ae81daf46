// Depth 4 and above: Chen's relation, one increment after the other, S <- S (x) exp(dx), then the logarithm.
//
// On level n, Horner's rule over the prefixes of a word i1 ... in:
//
//   h1 = dx_i1 / n + S(i1),   hk = h(k-1) dx_ik / (n - k + 1) + S(i1 ... ik),   S(i1 ... in) <- hn
//
// A word needs no other word's coefficients than its prefixes'. So all levels are followed in one walk over the tree of
// words, TILE increments at a time: a node holds, in registers, what the words below it need of it at each increment.
// The state is all words below the last level and, of the last level, the Lyndon words. The walk finds them by the rule of
// Fredricksen, Kessler and Maiorana: a prefix of Lyndon words with period p goes on as one with any letter from that p
// places before on, and is a Lyndon word itself with any later letter. They come in the order of the dictionary.
//
// The backward pass undoes a tile, S <- S (x) exp(-dx) from its last increment to its first, so that it needs no history,
// and pulls the cotangents back on the same walk.
#pragma once
#include "lanes.h"

namespace neuralrde {
namespace {

template <class T, int TILE, int D = 0>
struct Chen {
  using V = Vector<T>;
  using Values = V[TILE];  // one for each increment of a tile
  static constexpr int n = Lanes<T>::n;
  const Plan& plan;
  const Work<T>& work;
  const Channels<D> d;
  const int depth;
  // State, log-signature, and their cotangents; points of a tile, its increments (letter by letter), their cotangents.
  V *S, *words, *Sbar, *x;
  Values *dx, *dxbar;
  int64_t powers[MOST_DEPTH + 1], starts[MOST_DEPTH + 1];  // number of words of k letters; where they start in the state
  int64_t next[MOST_DEPTH + 1];                            // where the next Lyndon word of k letters stands
  int64_t number[MOST_DEPTH + 1];                          // of the first k letters of the word under way, as digits
  int64_t letter[MOST_DEPTH];
  V parts[MOST_DEPTH + 1][MOST_DEPTH + 1], parts_bar[MOST_DEPTH + 1][MOST_DEPTH + 1];
  V weighted[MOST_DEPTH + 1], weighted_bar[MOST_DEPTH + 1];

  Chen(const Plan& plan, const Work<T>& work, void* space)
      : plan(plan), work(work), d(plan.channels), depth(plan.depth) {
    powers[0] = 1, starts[0] = -1, number[0] = 0;  // the empty word, just before all others
    for (int k = 1; k <= depth; k++) powers[k] = k < depth ? powers[k - 1] * d : 0, starts[k] = starts[k - 1] + powers[k - 1];
    V* at = static_cast<V*>(space);
    S = at, at += plan.below;
    words = at, at += plan.words;
    x = at, at += (TILE + 1) * d;
    dx = reinterpret_cast<Values*>(at), at += TILE * d;
    dxbar = reinterpret_cast<Values*>(at), at += (TILE + 1) * d;
    Sbar = at;
  }
  static double vectors(const Plan& plan, bool backward) {
    return plan.below * (backward ? 2.0 : 1.0) + double(plan.words) + plan.channels * (3.0 * TILE + 2);
  }

  // ---- signatures -------------------------------------------------------------------------------------------------

  // A node of k letters, the word `q` of them; LEFT levels follow. h[j] is Horner's value for the level j + 1 further down,
  // divided by j + 1. TOP: the last of these levels is that of Lyndon words, and `period` is that of the node.
  template <int LEFT, bool TOP>
  __attribute__((always_inline)) inline void extend(int k, int64_t q, int period, const Values* h) {
    const int64_t least = TOP && k ? letter[k - period] : 0;
    if constexpr (TOP && LEFT == 1) {
      Values g;
      for (int t = 0; t < TILE; t++) g[t] = h[0][t];
      V* to = words + next[depth];
      next[depth] += d - 1 - least;
      for (int64_t c = least + 1; c < d; c++, to++) {
        V sum = *to;
        for (int t = 0; t < TILE; t++) sum += g[t] * dx[c][t];
        *to = sum;
      }
    } else {
      if constexpr (TOP)
        for (int64_t c = 0; c < least; c++) append<LEFT - 1, false>(k, q, 0, c, h);
      for (int64_t c = least; c < d; c++) {
        letter[k] = c;
        append<LEFT, TOP>(k, q, k && c == least ? period : k + 1, c, h);
      }
    }
  }
  template <int LEFT, bool TOP>
  __attribute__((always_inline)) inline void append(int k, int64_t q, int period, int64_t c, const Values* h) {
    V& to = S[starts[k + 1] + q * d + c];
    V sum = to;
    if constexpr (LEFT == 1) {
      for (int t = 0; t < TILE; t++) sum += h[0][t] * dx[c][t];
      to = sum;
    } else {
      Values longer[LEFT - 1];
      to = prefixes<LEFT>(longer, sum, c, h);
      if constexpr (LEFT > 4)
        extend_apart<LEFT - 1, TOP>(k + 1, q * d + c, period, longer);
      else
        extend<LEFT - 1, TOP>(k + 1, q * d + c, period, longer);
    }
  }
  // Many levels stand apart, where all depths share them: the compiler would copy them into each.
  template <int LEFT, bool TOP>
  __attribute__((noinline)) void extend_apart(int k, int64_t q, int period, const Values* h) {
    extend<LEFT, TOP>(k, q, period, h);
  }
  template <int LEFT, bool TOP>
  __attribute__((noinline)) void pull_extension_apart(int k, int64_t q, int period, const Values* h, Values* hbar) {
    pull_extension<LEFT, TOP>(k, q, period, h, hbar);
  }
  // Horner's values of a child, and its coefficient after the tile.
  template <int LEFT>
  V prefixes(Values* longer, V sum, int64_t c, const Values* h) const {
    for (int t = 0; t < TILE; t++) {
      const V by = dx[c][t];
      for (int j = 1; j < LEFT; j++) longer[j - 1][t] = (h[j][t] * by + sum) * T(1.0 / j);
      sum += h[0][t] * by;
    }
    return sum;
  }

  // The same with cotangents, those of the state after the tile giving way to those before it. S is not changed: it is
  // what it was before the tile.
  template <int LEFT, bool TOP>
  __attribute__((always_inline)) inline void pull_extension(int k, int64_t q, int period, const Values* h, Values* hbar) {
    const int64_t least = TOP && k ? letter[k - period] : 0;
    if constexpr (TOP && LEFT == 1) {
      Values g, gbar;
      for (int t = 0; t < TILE; t++) g[t] = h[0][t], gbar[t] = V{};
      const V* bar = words + next[depth];
      next[depth] += d - 1 - least;
      for (int64_t c = least + 1; c < d; c++, bar++)
        for (int t = 0; t < TILE; t++) {
          gbar[t] += *bar * dx[c][t];
          dxbar[c][t] += *bar * g[t];
        }
      for (int t = 0; t < TILE; t++) hbar[0][t] += gbar[t];
    } else {
      if constexpr (TOP)
        for (int64_t c = 0; c < least; c++) pull_append<LEFT - 1, false>(k, q, 0, c, h, hbar);
      for (int64_t c = least; c < d; c++) {
        letter[k] = c;
        pull_append<LEFT, TOP>(k, q, k && c == least ? period : k + 1, c, h, hbar);
      }
    }
  }
  template <int LEFT, bool TOP>
  __attribute__((always_inline)) inline void pull_append(int k, int64_t q, int period, int64_t c, const Values* h, Values* hbar) {
    const int64_t word = starts[k + 1] + q * d + c;
    Values longer_bar[LEFT];
    if constexpr (LEFT > 1) {
      Values longer[LEFT - 1];
      prefixes<LEFT>(longer, S[word], c, h);
      for (int j = 0; j < LEFT - 1; j++)
        for (int t = 0; t < TILE; t++) longer_bar[j][t] = V{};
      if constexpr (LEFT > 4)
        pull_extension_apart<LEFT - 1, TOP>(k + 1, q * d + c, period, longer, longer_bar);
      else
        pull_extension<LEFT - 1, TOP>(k + 1, q * d + c, period, longer, longer_bar);
    }
    V bar = Sbar[word];
    for (int t = TILE - 1; t >= 0; t--) {
      const V by = dx[c][t];
      V by_bar = bar * h[0][t];
      hbar[0][t] += bar * by;
      for (int j = 1; j < LEFT; j++) {
        const V one = longer_bar[j - 1][t] * T(1.0 / j);
        bar += one;
        hbar[j][t] += one * by;
        by_bar += one * h[j][t];
      }
      dxbar[c][t] += by_bar;
    }
    Sbar[word] = bar;
  }

  void start_words() {
    for (int k = 1; k <= depth; k++) next[k] = plan.firsts[k];
  }

  template <int LEVELS, bool TOP>
  void add_tile() {
    Values one[LEVELS];
    for (int j = 0; j < LEVELS; j++)
      for (int t = 0; t < TILE; t++) one[j][t] = V{} + T(1.0 / (j + 1));
    start_words();
    if constexpr (D > 0)
      extend<LEVELS, TOP>(0, 0, 0, one);
    else
      extend_apart<LEVELS, TOP>(0, 0, 0, one);
  }
  template <int DEPTH>
  void pull_back_tile() {
    Values one[DEPTH], one_bar[DEPTH];
    for (int j = 0; j < DEPTH; j++)
      for (int t = 0; t < TILE; t++) one[j][t] = V{} + T(1.0 / (j + 1)), one_bar[j][t] = V{};
    for (int64_t c = 0; c < d; c++)
      for (int t = 0; t < TILE; t++) dxbar[c][t] = V{};
    start_words();
    pull_extension_apart<DEPTH, true>(0, 0, 0, one, one_bar);
  }

  // ---- logarithm --------------------------------------------------------------------------------------------------

  // log(1 + x) of a word is a sum over the ways to cut it into parts, with weight (-1)^(m+1) / m for m parts. All but the
  // last part are a prefix u, so with the sums parts[k][m] over the ways to cut the prefix of k letters into m parts,
  //
  //   log(w) = S(w) + sum over w = uv of W(u) S(v),   W(u) = sum over m of weight(m + 1) parts[m](u).
  static T weight(int m) { return (m % 2 ? T(1) : T(-1)) / T(m); }
  // Where what follows the first i of k letters stands.
  int64_t rest(int i, int k) const { return starts[k - i] + number[k] - number[i] * powers[k - i]; }

  void cut(int k) {
    parts[k][1] = S[rest(0, k)];
    weighted[k] = weight(2) * parts[k][1];
    for (int m = 2; m <= k; m++) {
      V sum = {};
      for (int i = m - 1; i < k; i++) sum += parts[i][m - 1] * S[rest(i, k)];
      parts[k][m] = sum;
      weighted[k] += weight(m + 1) * sum;
    }
  }
  __attribute__((noinline)) void logarithm(int k, int period) {
    const int64_t least = k ? letter[k - period] : 0;
    if (k == depth - 1) {
      const V* rests[MOST_DEPTH];
      for (int i = 1; i <= k; i++) rests[i] = S + starts[depth - i] + (number[k] - number[i] * powers[k - i]) * d;
      for (int64_t c = least + 1; c < d; c++) {
        V sum = words[next[depth]];
        for (int i = 1; i <= k; i++) sum += weighted[i] * rests[i][c];
        words[next[depth]++] = sum;
      }
      return;
    }
    for (int64_t c = least; c < d; c++) {
      letter[k] = c, number[k + 1] = number[k] * d + c;
      if (!k || c > least) {
        V sum = S[rest(0, k + 1)];
        for (int i = 1; i <= k; i++) sum += weighted[i] * S[rest(i, k + 1)];
        words[next[k + 1]++] = sum;
      }
      cut(k + 1);
      logarithm(k + 1, k && c == least ? period : k + 1);
    }
  }

  void pull_back_cut(int k) {
    for (int m = k; m >= 1; m--) {
      const V bar = parts_bar[k][m] + weight(m + 1) * weighted_bar[k];
      if (m == 1)
        Sbar[rest(0, k)] += bar;
      else
        for (int i = m - 1; i < k; i++) {
          parts_bar[i][m - 1] += bar * S[rest(i, k)];
          Sbar[rest(i, k)] += bar * parts[i][m - 1];
        }
    }
  }
  // The cotangents stand in `words`; those of the last level are the state's, too.
  __attribute__((noinline)) void pull_back_logarithm(int k, int period) {
    const int64_t least = k ? letter[k - period] : 0;
    for (int64_t c = k == depth - 1 ? least + 1 : least; c < d; c++) {
      letter[k] = c, number[k + 1] = number[k] * d + c;
      if (!k || c > least) {
        const V bar = words[next[k + 1]++];
        if (k + 1 < depth) Sbar[rest(0, k + 1)] += bar;
        for (int i = 1; i <= k; i++) {
          const int64_t word = rest(i, k + 1);
          weighted_bar[i] += bar * S[word];
          Sbar[word] += bar * weighted[i];
        }
      }
      if (k == depth - 1) continue;
      cut(k + 1);
      weighted_bar[k + 1] = V{};
      for (int m = 1; m <= k + 1; m++) parts_bar[k + 1][m] = V{};
      pull_back_logarithm(k + 1, k && c == least ? period : k + 1);
      number[k + 1] = number[k] * d + c;
      pull_back_cut(k + 1);
    }
  }

  // ---- windows ----------------------------------------------------------------------------------------------------

  // x[0 .. d) is the tile's first point already. Answers zero, or NaN in lanes that met NaN or infinity.
  V load_tile(const Group<T>& group, int64_t from) {
    const int64_t count = group.longest - from < TILE ? group.longest - from : TILE;
    group.load_points(x + d, from + 1, count, d);
    for (int64_t c = (count + 1) * d; c < (TILE + 1) * d; c++) x[c] = x[c - d];
    V bad = {};
    for (int64_t c = 0; c < d; c++)
      for (int t = 0; t < TILE; t++) {
        dx[c][t] = x[(t + 1) * d + c] - x[t * d + c];
        bad += dx[c][t] - dx[c][t];
      }
    return bad;
  }

  template <int LEVELS, bool TOP>
  V follow(const Group<T>& group) {
    for (int64_t q = 0; q < plan.below + plan.words; q++) S[q] = V{};
    group.load_points(x, 0, 1, d);
    V bad = {};
    for (int64_t from = 0; from < group.longest; from += TILE) {
      bad += load_tile(group, from);
      add_tile<LEVELS, TOP>();
      for (int64_t c = 0; c < d; c++) x[c] = x[TILE * d + c];
    }
    return bad;
  }

  template <int DEPTH>
  bool forward(int64_t begin, int64_t end) {
    bool finite = true;
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      const V bad = follow<DEPTH, true>(group);
      start_words();
      logarithm(0, 0);
      for (int64_t c = 0; c < d; c++) words[c] += bad;
      finite &= store_words<T>(plan, work, first, group.lanes, words);
    }
    return finite;
  }

  template <int DEPTH>
  void backward(int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      follow<DEPTH - 1, false>(group);
      load_cotangents<T>(plan, work, first, group.lanes, words);
      for (int64_t q = 0; q < plan.below; q++) Sbar[q] = V{};
      start_words();
      pull_back_logarithm(0, 0);
      // A point ends one increment and begins another: what it owes to the later one is pending.
      V* const pending = &dxbar[d][0];
      for (int64_t c = 0; c < d; c++) pending[c] = V{};
      for (int64_t from = group.longest ? (group.longest - 1) / TILE * TILE : -1; from >= 0; from -= TILE) {
        group.load_points(x, from, 1, d);
        load_tile(group, from);
        undo_tile<DEPTH - 1>();
        pull_back_tile<DEPTH>();
        for (int l = 0; l < n; l++)
          for (int64_t t = group.counts[l] > from ? group.counts[l] - from : 0; t < TILE; t++)
            for (int64_t c = 0; c < d; c++) dxbar[c][t][l] = 0;
        for (int64_t c = 0; c < d; c++) {
          for (int t = 0; t < TILE; t++) x[(t + 1) * d + c] = dxbar[c][t] - (t + 1 < TILE ? dxbar[c][t + 1] : pending[c]);
          pending[c] = dxbar[c][0];
        }
        group.store_points(work.gradient, from, 1, group.longest - from < TILE ? group.longest - from : TILE, x, d);
      }
      T* rows[n];
      for (int l = 0; l < n; l++) rows[l] = work.first + (first + l) * d;
      for (int64_t c = 0; c < d; c++) pending[c] = -pending[c];
      store_columns<T>(rows, pending, d, group.lanes);
    }
  }
  template <int LEVELS>
  void undo_tile() {
    const auto turn = [&] {
      for (int64_t c = 0; c < d; c++)
        for (int t = 0; t < TILE / 2; t++) {
          const V early = dx[c][t];
          dx[c][t] = -dx[c][TILE - 1 - t], dx[c][TILE - 1 - t] = -early;
        }
    };
    turn();
    add_tile<LEVELS, false>();
    turn();
  }
};

}  // namespace
}  // namespace neuralrde
