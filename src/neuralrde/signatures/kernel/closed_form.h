// Depth 1 to 3 of a piecewise-linear path in closed form: sums over the increments, with no state to carry along.
//
// With increments dx, midpoints m measured from the window's start, s = sum dx:
//
//   level 2:  A_ij   = 1/2 sum (m_i dx_j - m_j dx_i)
//   level 3:  L_ijk  = 1/2 (A_ij s_k - s_i A_jk) + 1/3 s_i s_j s_k - T_ijk,
//             T_ijk  = sum P_ik dx_j,   P_ik = m_i m_k + dx_i dx_k / 12
//
// Lyndon words of three letters are exactly the (i, j, k) with i < k and j >= i, so every pair i < k meets a run of j.
// The sums go through tiles of TILE increments, whose P stay in registers while j runs.
#pragma once
#include <algorithm>

#include "lanes.h"

namespace neuralrde {
namespace {

inline int64_t pair_index(int64_t d, int64_t i, int64_t j) { return i * (2 * d - i - 1) / 2 + j - i - 1; }  // i < j
template <class T, int TILE, int D = 0>
struct ClosedForm {
  using V = Vector<T>;
  static constexpr int n = Lanes<T>::n;
  const Plan& plan;
  const Work<T>& work;
  const Channels<D> d;
  const int64_t pairs;
  // Workspace: points of a tile and their cotangents, increments, midpoints, and their cotangents; the window's start; sums.
  V *x, *xbar, *dx, *m, *dxbar, *mbar, *x0, *s, *area, *triple;

  ClosedForm(const Plan& plan, const Work<T>& work, void* space)
      : plan(plan), work(work), d(plan.channels), pairs(d * (d - 1) / 2) {
    V* at = static_cast<V*>(space);
    x = at, at += (TILE + 1) * d;
    xbar = at, at += (TILE + 1) * d;
    // Channel by channel, and room for a block that begins with the last one.
    dx = at, at += TILE * (d + 3);
    m = at, at += TILE * (d + 3);
    dxbar = at, at += TILE * (d + 3);
    mbar = at, at += TILE * (d + 3);
    x0 = at, at += d;
    // The words of a log-signature, in their order.
    s = at, at += d;
    area = at, at += pairs;
    triple = at;
  }

  // Vectors of workspace; `backward` adds the cotangents of the words.
  static size_t vectors(const Plan& plan, bool backward) {
    const size_t d = plan.channels, words = d + d * (d - 1) / 2 + plan.words;
    return (6 * TILE + 3) * d + 12 * TILE + words * (backward ? 2 : 1) + 4 * d;
  }

  // Increments and midpoints of the tile that starts at point `from`; x[0..d) already holds that point.
  void next_tile(const Group<T>& group, int64_t from) {
    const int64_t count = group.longest - from < TILE ? group.longest - from : TILE;
    group.load_points(x + d, from + 1, count, d);
    for (int64_t c = (count + 1) * d; c < (TILE + 1) * d; c++) x[c] = x[c - d];
    for (int64_t t = 0; t < TILE; t++)
      for (int64_t c = 0; c < d; c++) {
        const V left = x[t * d + c], right = x[(t + 1) * d + c];
        dx[c * TILE + t] = right - left;
        // Not the mean of both ends less x0: far from the origin it would lose what the window is about.
        m[c * TILE + t] = (left - x0[c]) + T(0.5) * (right - left);
      }
  }
  void carry_last_point() {
    for (int64_t c = 0; c < d; c++) x[c] = x[TILE * d + c];
  }

  template <int DEPTH>
  void add_tile() {
    if (in_blocks()) return add_tile_in_blocks<DEPTH>();
    for (int64_t i = 0, word = 0; i < d; i++) {
      const int64_t ks = d - i - 1;
      for (int64_t k = i + 1; k < d; k++) {
        // Each sum in two halves: a chain of additions waits four cycles for each of them.
        V product[TILE], plus = {}, minus = {};
        for (int t = 0; t < TILE; t++) {
          const V mi = m[i * TILE + t], mk = m[k * TILE + t], dxi = dx[i * TILE + t], dxk = dx[k * TILE + t];
          plus += mi * dxk;
          minus += mk * dxi;
          if constexpr (DEPTH == 3) product[t] = mi * mk + T(1.0 / 12) * (dxi * dxk);
        }
        area[pair_index(d, i, k)] += plus - minus;
        if constexpr (DEPTH == 3)
          for (int64_t j = i; j < d; j++) {
            V even = {}, odd = {};
            for (int t = 0; t < TILE; t += 2) {
              even += product[t] * dx[j * TILE + t];
              odd += product[t + 1] * dx[j * TILE + t + 1];
            }
            triple[word + (j - i) * ks + k - i - 1] += even + odd;
          }
      }
      word += ks * (d - i);
    }
  }

  // With many channels the sums do not stay in registers, and what they are made of is read again and again: blocks of
  // ROWS by COLUMNS of them read each number once a block. What a block finds beyond the last channel is not used. Of
  // the two sums in an area one is enough, by parts: sum (m_i dx_j + m_j dx_i) = s_i s_j.
  static constexpr int ROWS = BYTES == 64 ? 4 : 2, COLUMNS = 4;
  bool in_blocks() const { return d >= 2 * COLUMNS; }
  template <int DEPTH>
  void add_tile_in_blocks() {
    for (int64_t i = 0; i < d; i += ROWS)
      for (int64_t k = i; k < d; k += COLUMNS) {
        V sums[ROWS][COLUMNS] = {};
        const V *const mi = m + i * TILE, *const dxk = dx + k * TILE;
        for (int t = 0; t < TILE; t++)
          for (int a = 0; a < ROWS; a++)
            for (int b = 0; b < COLUMNS; b++) sums[a][b] += mi[a * TILE + t] * dxk[b * TILE + t];
        for (int a = 0; a < ROWS; a++)
          for (int b = 0; b < COLUMNS; b++)
            if (i + a < k + b && k + b < d) area[pair_index(d, i + a, k + b)] += sums[a][b];
      }
    if constexpr (DEPTH == 3)
      for (int64_t i = 0, word = 0; i < d; i++) {
        const int64_t ks = d - i - 1;
        V* const products = mbar;  // which only the way back needs
        for (int64_t k = i + 1; k < d; k++)
          for (int t = 0; t < TILE; t++)
            products[k * TILE + t] =
                m[i * TILE + t] * m[k * TILE + t] + T(1.0 / 12) * (dx[i * TILE + t] * dx[k * TILE + t]);
        for (int64_t j = i; j < d; j += ROWS)
          for (int64_t k = i + 1; k < d; k += COLUMNS) {
            V sums[ROWS][COLUMNS] = {};
            const V *const dxj = dx + j * TILE, *const product = products + k * TILE;
            for (int t = 0; t < TILE; t++)
              for (int a = 0; a < ROWS; a++)
                for (int b = 0; b < COLUMNS; b++) sums[a][b] += product[b * TILE + t] * dxj[a * TILE + t];
            for (int a = 0; a < ROWS; a++)
              for (int b = 0; b < COLUMNS; b++)
                if (j + a < d && k + b < d) triple[word + (j + a - i) * ks + k + b - i - 1] += sums[a][b];
          }
        word += ks * (d - i);
      }
  }

  V full_area(int64_t i, int64_t j) const {
    if (i == j) return V{};
    return i < j ? area[pair_index(d, i, j)] : -area[pair_index(d, j, i)];
  }

  // s, A and T over a whole group of windows. NaN and infinity inside a window show in its areas; at depth 1, where only
  // the ends count, they are looked for: the answer is zero, or NaN in the lanes that met them.
  template <int DEPTH>
  V sums(const Group<T>& group) {
    group.load_points(x0, 0, 1, d);
    V bad = {};
    for (int64_t c = 0; c < d; c++) x[c] = x0[c];
    for (int64_t p = 0; p < pairs; p++) area[p] = V{};
    if constexpr (DEPTH == 3)
      for (int64_t w = 0; w < plan.words - d - pairs; w++) triple[w] = V{};
    for (int64_t from = 0; from < group.longest; from += TILE) {
      next_tile(group, from);
      if constexpr (DEPTH > 1)
        add_tile<DEPTH>();
      else
        for (int64_t c = 0; c < TILE * d; c++) bad += dx[c] - dx[c];
      carry_last_point();
    }
    for (int64_t c = 0; c < d; c++) s[c] = x[c] - x0[c];
    if (in_blocks()) {
      for (int64_t i = 0, p = 0; i < d; i++)
        for (int64_t k = i + 1; k < d; k++, p++) area[p] -= T(0.5) * (s[i] * s[k]);
    } else {
      for (int64_t p = 0; p < pairs; p++) area[p] *= T(0.5);
    }
    return bad;
  }

  template <int DEPTH>
  bool forward(int64_t begin, int64_t end) {
    bool finite = true;
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      const V bad = sums<DEPTH>(group);
      if constexpr (DEPTH == 3)
        for (int64_t i = 0, w = 0; i < d; i++)
          for (int64_t j = i; j < d; j++)
            for (int64_t k = i + 1; k < d; k++, w++)
              triple[w] = T(0.5) * (full_area(i, j) * s[k] - s[i] * full_area(j, k)) +
                          T(1.0 / 3) * (s[i] * s[j] * s[k]) - triple[w];
      for (int64_t c = 0; c < d; c++) s[c] += bad;
      finite &= store_words<T>(plan, work, first, group.lanes, s);
    }
    return finite;
  }

  // ---- backward -----------------------------------------------------------------------------------------------

  // Cotangents of dx and m in a tile, from those of the areas (halved) and of T.
  template <int DEPTH>
  void pull_back_tile(const V* area_bar, const V* triple_bar) {
    pull_back_areas(area_bar);
    if constexpr (DEPTH == 3) pull_back_triples(triple_bar);
  }

  // With the antisymmetric matrix B of the areas' cotangents: mbar = B dx, dxbar = -B m.
  void pull_back_areas(const V* area_bar) {
    for (int64_t c = 0; c < d; c++) {
      V to_m[TILE] = {}, to_dx[TILE] = {};
      for (int64_t k = 0; k < d; k++) {
        if (k == c) continue;
        const V bar = k < c ? -area_bar[pair_index(d, k, c)] : area_bar[pair_index(d, c, k)];
        for (int t = 0; t < TILE; t++) {
          to_m[t] += bar * dx[k * TILE + t];
          to_dx[t] -= bar * m[k * TILE + t];
        }
      }
      for (int t = 0; t < TILE; t++) mbar[c * TILE + t] = to_m[t], dxbar[c * TILE + t] = to_dx[t];
    }
  }

  void pull_back_triples(const V* triple_bar) {
    for (int64_t i = 0, word = 0; i < d; i++) {
      const int64_t ks = d - i - 1;
      for (int64_t k = i + 1; k < d; k++) {
        V product[TILE], product_bar[TILE];
        for (int t = 0; t < TILE; t++) {
          product[t] = m[i * TILE + t] * m[k * TILE + t] + T(1.0 / 12) * (dx[i * TILE + t] * dx[k * TILE + t]);
          product_bar[t] = V{};
        }
        for (int64_t j = i; j < d; j++) {
          const V bar = triple_bar[word + (j - i) * ks + k - i - 1];
          for (int t = 0; t < TILE; t++) {
            product_bar[t] -= bar * dx[j * TILE + t];
            dxbar[j * TILE + t] -= bar * product[t];
          }
        }
        for (int t = 0; t < TILE; t++) {
          const V twelfth = T(1.0 / 12) * product_bar[t];
          mbar[i * TILE + t] += product_bar[t] * m[k * TILE + t];
          mbar[k * TILE + t] += product_bar[t] * m[i * TILE + t];
          dxbar[i * TILE + t] += twelfth * dx[k * TILE + t];
          dxbar[k * TILE + t] += twelfth * dx[i * TILE + t];
        }
      }
      word += ks * (d - i);
    }
  }

  // Level 3 also depends on the areas and on s: move its cotangents there.
  void pull_back_products(V* sbar, V* area_bar, const V* triple_bar) const {
    auto add_area = [&](int64_t i, int64_t j, V bar) {
      if (i < j) area_bar[pair_index(d, i, j)] += bar;
      if (i > j) area_bar[pair_index(d, j, i)] -= bar;
    };
    for (int64_t i = 0, w = 0; i < d; i++)
      for (int64_t j = i; j < d; j++)
        for (int64_t k = i + 1; k < d; k++, w++) {
          const V half = T(0.5) * triple_bar[w], third = T(1.0 / 3) * triple_bar[w];
          add_area(i, j, half * s[k]);
          add_area(j, k, -half * s[i]);
          sbar[i] += third * s[j] * s[k] - half * full_area(j, k);
          sbar[j] += third * s[i] * s[k];
          sbar[k] += third * s[i] * s[j] + half * full_area(i, j);
        }
  }

  template <int DEPTH>
  void backward(int64_t begin, int64_t end) {
    V* const sbar = s + d + pairs + (DEPTH == 3 ? plan.words - d - pairs : 0);
    V *const area_bar = sbar + d, *const triple_bar = area_bar + pairs;
    V *const pending = sbar + (plan.words > d + pairs ? plan.words : d + pairs), *const first_bar = pending + d;
    for (int64_t first = begin; first < end; first += n) {
      const Group<T> group(plan, work, first, end);
      load_cotangents<T>(plan, work, first, group.lanes, sbar);
      if constexpr (DEPTH == 1)
        for (int64_t p = 0; p < pairs; p++) area_bar[p] = V{};
      if constexpr (DEPTH == 3) {
        sums<2>(group);
        pull_back_products(sbar, area_bar, triple_bar);
      }
      for (int64_t p = 0; p < pairs; p++) area_bar[p] *= T(0.5);
      group.load_points(x0, 0, 1, d);
      for (int64_t c = 0; c < d; c++) x[c] = x0[c], pending[c] = first_bar[c] = V{};
      for (int64_t from = 0; from < group.longest; from += TILE) {
        next_tile(group, from);
        pull_back_tile<DEPTH>(area_bar, triple_bar);
        carry_last_point();
        if (from + TILE > group.shortest) clear_padding(group, from);
        // Each point ends one increment and begins another.
        for (int64_t t = 0; t < TILE; t++)
          for (int64_t c = 0; c < d; c++) {
            const V half = T(0.5) * mbar[c * TILE + t], bar = dxbar[c * TILE + t];
            xbar[t * d + c] = pending[c] + (half - bar);
            pending[c] = half + bar;
          }
        add_ends(group, from, xbar, pending, sbar);
        for (int64_t c = 0; c < d; c++) xbar[TILE * d + c] = pending[c];
        // The point that ends this tile is pending until the next, and there is no next one at the end.
        const int64_t last = group.longest - from > TILE ? TILE - 1 : group.longest - from;
        group.store_points(work.gradient, from, from == 0, last, xbar, d);
        for (int64_t t = from == 0; t <= last; t++)
          for (int64_t c = 0; c < d; c++) first_bar[c] -= xbar[t * d + c];
      }
      T* rows[n];
      for (int l = 0; l < n; l++) rows[l] = work.first + (first + l) * d;
      store_columns<T>(rows, first_bar, d, group.lanes);
    }
  }

  // Increments beyond a window's end are zero but for the sake of the lanes: nothing flows through them.
  void clear_padding(const Group<T>& group, int64_t from) {
    const int64_t all = group.longest - from;
    for (int64_t c = 0; c < d; c++)
      for (int64_t t = all; t < TILE; t++) dxbar[c * TILE + t] = mbar[c * TILE + t] = V{};
    for (int l = 0; l < n; l++)
      for (int64_t t = group.counts[l] > from ? group.counts[l] - from : 0; t < TILE && t < all; t++)
        for (int64_t c = 0; c < d; c++) dxbar[c * TILE + t][l] = mbar[c * TILE + t][l] = 0;
  }

  // s is the last point less the first.
  void add_ends(const Group<T>& group, int64_t from, V* xbar, V* pending, const V* sbar) {
    if (group.shortest == group.longest) {
      if (from + TILE < group.longest) return;
      V* const at = group.longest == from + TILE ? pending : xbar + (group.longest - from) * d;
      for (int64_t c = 0; c < d; c++) at[c] += sbar[c];
      return;
    }
    for (int l = 0; l < n; l++) {
      const int64_t point = group.counts[l] - from;
      if (point < 1 || point > TILE) continue;
      V* const at = point == TILE ? pending : xbar + point * d;
      for (int64_t c = 0; c < d; c++) at[c][l] += sbar[c][l];
    }
  }
};

}  // namespace
}  // namespace neuralrde
