// How many windows of a series lie above a threshold, or win a contest, for many linear maps of their log-signatures at
// once. Lanes are maps: a window's log-signature is multiplied with the maps and compared while it is in registers, and
// nothing but the counts is written.
#pragma once
#include "lanes.h"

namespace neuralrde {
namespace {

inline Vector<float> mapped(const Pool& pool, const float* log, int64_t first) {
  Vector<float> value = log[0] * load<float>(pool.map + first);
  for (int64_t k = 1; k < pool.words; k++) value += log[k] * load<float>(pool.map + k * pool.maps + first);
  return value;
}

// Samples [begin, end).
inline void count_above(const Pool& pool, int64_t begin, int64_t end) {
  constexpr int n = Lanes<float>::n;
  using V = Vector<float>;
  typedef int32_t I __attribute__((vector_size(BYTES)));
  constexpr int most = Pool::most_thresholds;
  for (int64_t s = begin; s < end; s++) {
    const float* const logs = pool.logs + s * pool.windows * pool.words;
    int32_t* const counts = pool.counts + s * pool.thresholds * pool.maps;
    for (int64_t first = 0; first < pool.maps; first += n) {
      // The caller pads maps and thresholds to whole vectors of the widest kind.
      V threshold[most];
      I above[most] = {};
      for (int64_t q = 0; q < pool.thresholds; q++) threshold[q] = load<float>(pool.at + q * pool.maps + first);
      for (int64_t w = 0; w < pool.own[s]; w++) {
        const float* const log = logs + w * pool.words;
        const V value = mapped(pool, log, first);
        for (int64_t q = 0; q < pool.thresholds; q++) above[q] -= value > threshold[q];
      }
      for (int64_t q = 0; q < pool.thresholds; q++) std::memcpy(counts + q * pool.maps + first, &above[q], sizeof(I));
    }
  }
}

// The largest of each group of `Pool::group` lanes, in all of its lanes.
template <int S, int... I>
inline Vector<float> larger_neighbour(Vector<float> value, std::integer_sequence<int, I...>) {
  const Vector<float> other = __builtin_shufflevector(value, value, (I ^ S)...);
  return value > other ? value : other;
}
inline Vector<float> largest_of_group(Vector<float> value) {
  constexpr auto lanes = std::make_integer_sequence<int, Lanes<float>::n>();
  value = larger_neighbour<2>(larger_neighbour<1>(value, lanes), lanes);
  if constexpr (Lanes<float>::n >= Pool::group) value = larger_neighbour<4>(value, lanes);
  return value;
}

// counts[0]: windows in which a map has the largest value of its group; counts[1]: the smallest.
inline void count_winners(const Pool& pool, int64_t begin, int64_t end) {
  constexpr int n = Lanes<float>::n, wide = n < Pool::group ? Pool::group / n : 1;  // vectors that hold a group
  using V = Vector<float>;
  typedef int32_t I __attribute__((vector_size(BYTES)));
  for (int64_t s = begin; s < end; s++) {
    const float* const logs = pool.logs + s * pool.windows * pool.words;
    int32_t* const counts = pool.counts + s * 2 * pool.maps;
    for (int64_t first = 0; first < pool.maps; first += wide * n) {
      I largest[wide] = {}, smallest[wide] = {};
      for (int64_t w = 0; w < pool.own[s]; w++) {
        V value[wide], high, low;
        for (int i = 0; i < wide; i++) {
          value[i] = mapped(pool, logs + w * pool.words, first + i * n);
          const V top = largest_of_group(value[i]), bottom = -largest_of_group(-value[i]);
          high = i == 0 ? top : (top > high ? top : high);
          low = i == 0 ? bottom : (bottom < low ? bottom : low);
        }
        for (int i = 0; i < wide; i++) largest[i] -= value[i] == high, smallest[i] -= value[i] == low;
      }
      std::memcpy(counts + first, largest, sizeof largest);
      std::memcpy(counts + pool.maps + first, smallest, sizeof smallest);
    }
  }
}

}  // namespace
}  // namespace neuralrde
