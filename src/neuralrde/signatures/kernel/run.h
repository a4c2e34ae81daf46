// What the library's doors call: the threads, and the choice of kernels for this processor. It knows
// neither Python nor JAX, so that the sanitizers' driver can include it too.
//
// Nothing here may throw into code that is not C++: `forward` and `backward` answer NO_MEMORY instead.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <cpuid.h>
#include <malloc.h>
extern "C" __declspec(dllimport) int __stdcall IsProcessorFeaturePresent(unsigned long feature);
#endif

#include "work.h"

namespace neuralrde {

extern const Level level_baseline;
#if defined(__x86_64__)
extern const Level level_x86_64_v3, level_x86_64_v4;
#endif

#if defined(__x86_64__)
struct Vectors {
  bool v3, v4;  // AVX2, and AVX-512, with what comes with them in x86-64-v3 and -v4
};
#if defined(_WIN32)  // where compilers bring no __builtin_cpu_supports
inline Vectors vectors_here() {
  unsigned a = 0, one = 0, seven = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &c, &one, &d);
  __get_cpuid_count(7, 0, &a, &seven, &c, &d);
  const unsigned bmi2 = 1u << 8, fma = 1u << 12, f_dq_cd_bw_vl = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  const bool v3 = IsProcessorFeaturePresent(40) && (one & fma) && (seven & bmi2);  // 40 is AVX2, 41 is AVX-512
  return {v3, v3 && IsProcessorFeaturePresent(41) && (seven & f_dq_cd_bw_vl) == f_dq_cd_bw_vl};
}
#else
inline Vectors vectors_here() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return {v3, v4};
}
#endif
#endif

// The kernels that this processor can run, the widest last.
inline std::vector<const Level*> levels_here() {
  std::vector<const Level*> levels = {&level_baseline};
#if defined(__x86_64__)
  const Vectors vectors = vectors_here();
  if (vectors.v3) levels.push_back(&level_x86_64_v3);
  if (vectors.v4) levels.push_back(&level_x86_64_v4);
#endif
  return levels;
}

inline const Level& this_processor() {
  static const Level* const level = levels_here().back();
  return *level;
}

// Lyndon words of k letters by Witt's formula: every word is a power of one of them, turned round.
inline Plan plan_for(int channels, int depth, int64_t words) {
  Plan plan = {channels, depth, words, 0, {}};
  if (depth <= 3) return plan;
  if (std::pow(double(channels), depth) > 1e15) throw std::bad_alloc();
  int64_t lyndon[MOST_DEPTH + 1];
  for (int64_t k = 1, power = channels; k <= depth; k++, power *= channels) {
    if (k < depth) plan.below += power;
    lyndon[k] = power;
    for (int64_t m = 1; m < k; m++)
      if (k % m == 0) lyndon[k] -= m * lyndon[m];
    lyndon[k] /= k;
    plan.firsts[k + 1] = plan.firsts[k] + lyndon[k];
  }
  return plan;
}

// Memory at the start of a cache line; null if there is none.
#if defined(_WIN32)
inline void* allocate(size_t bytes) { return _aligned_malloc(bytes, 64); }
inline void release(void* memory) { _aligned_free(memory); }
#else
inline void* allocate(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
inline void release(void* memory) { std::free(memory); }
#endif

// ---- threads ------------------------------------------------------------------------------------------------------

// Run windows [0, total) in pieces on all threads: `run(begin, end, workspace)`. A thread that cannot be started or has
// no memory leaves its share to the others. False if there was memory for none.
template <class Run>
bool on_all_threads(int64_t total, int64_t threads, double workspace, const Run& run, int64_t lanes = 16) {
  const int64_t groups = (total + lanes - 1) / lanes;
  const int64_t piece = std::max<int64_t>(1, groups / (threads * 8)) * lanes;
  std::atomic<int64_t> next{0};
  auto worker = [&] {
    void* const space = workspace < 1e15 ? allocate(size_t(workspace)) : nullptr;
    if (!space) return;
    for (int64_t begin; (begin = next.fetch_add(piece)) < total;) run(begin, std::min(begin + piece, total), space);
    release(space);
  };
  const int64_t wanted = std::min(threads, (total + piece - 1) / piece) - 1;
  std::vector<std::thread> others;
  others.reserve(size_t(std::max<int64_t>(wanted, 0)));
  try {
    while (int64_t(others.size()) < wanted) others.emplace_back(worker);
  } catch (...) {  // no more threads to be had
  }
  worker();
  for (std::thread& thread : others) thread.join();
  return next >= total;  // whoever took a piece also finished it
}

enum Answer : int { GOOD = 0, NOT_FINITE = 1, NO_MEMORY = 2 };

// Fresh memory comes in pages of 4 KiB, each a fault on first touch, which can cost more than the log-signature itself.
inline void ask_for_large_pages(void* memory, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t page = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: failure is no harm
#endif
}

// Increments of all windows together, at most; those of consecutive windows need not be counted.
template <class T>
double increments_of(const Work<T>& work) {
  const Spans& spans = work.spans;
  if (spans.consecutive()) return double(work.samples) * double(work.length);
  double sum = 0;
  for (int64_t r = 0; r < spans.rows; r++)
    for (int64_t w = 0; w < spans.windows; w++) sum += double(spans.increments(r, w));
  return sum * double(work.samples) / double(spans.rows);
}

// Starting a thread costs some tens of microseconds: not worth it for less work than this (multiplications).
inline int64_t threads_for(const Plan& plan, double increments, int64_t threads) {
  return increments * double(plan.words + plan.below) < 5e5 ? 1 : std::max<int64_t>(1, threads);
}

// Bytes of each thread's workspace, which is all that is needed beside the arrays that go in and come out.
inline double workspace_for(int channels, int depth, int64_t words, bool backward) noexcept try {
  return this_processor().workspace(plan_for(channels, depth, words), backward);
} catch (...) {
  return 1e300;  // beyond all bounds
}

template <class T>
Answer forward(const Level& level, int channels, int depth, int64_t words, const Work<T>& work,
               int64_t threads) noexcept try {
  const Plan plan = plan_for(channels, depth, words);
  ask_for_large_pages(work.out, sizeof(T) * work.samples * work.spans.windows * words);
  std::atomic<bool> finite{true};
  threads = threads_for(plan, increments_of(work), threads);
  const auto run = [&](int64_t begin, int64_t end, void* space) {
    bool good;
    if constexpr (sizeof(T) == 4)
      good = level.forward32(plan, work, begin, end, space);
    else
      good = level.forward64(plan, work, begin, end, space);
    if (!good) finite = false;
  };
  if (!on_all_threads(work.samples * work.spans.windows, threads, level.workspace(plan, false), run)) return NO_MEMORY;
  return finite ? GOOD : NOT_FINITE;
} catch (...) {
  return NO_MEMORY;
}

// The gradient of consecutive windows: no two of them write to the same point but where they meet.
template <class T, class Run>
Answer backward_consecutive(Work<T> work, int64_t d, const Run& run) {
  const Spans& spans = work.spans;
  const std::unique_ptr<T[]> first(new T[work.samples * spans.windows * d]);
  work.first = first.get();
  ask_for_large_pages(work.gradient, sizeof(T) * work.samples * work.length * d);
  if (!run(work)) return NO_MEMORY;
  // Points that end no window were not written; and every window's first point, which ends the window before it,
  // still misses that window's share.
  for (int64_t s = 0; s < work.samples; s++) {
    const int64_t row = s % spans.rows;
    T* const gradient = work.gradient + s * work.length * d;
    std::fill(gradient, gradient + (spans.start(row, 0) + 1) * d, T(0));
    std::fill(gradient + (spans.end(row, spans.windows - 1) + 1) * d, gradient + work.length * d, T(0));
    for (int64_t w = 0; w < spans.windows; w++)
      for (int64_t c = 0; c < d; c++) gradient[spans.start(row, w) * d + c] += first[(s * spans.windows + w) * d + c];
  }
  return GOOD;
}

// The gradient of any windows: each writes to a place of its own, and what belongs to the same point is added up.
template <class T, class Run>
Answer backward_apart(Work<T> work, int64_t d, int64_t threads, const Run& run) {
  const Spans& spans = work.spans;
  const int64_t count = work.samples * spans.windows;
  const std::unique_ptr<int64_t[]> places(new int64_t[count + 1]);
  places[0] = 0;
  for (int64_t number = 0; number < count; number++)
    places[number + 1] = places[number] + 1 + spans.increments(number / spans.windows % spans.rows, number % spans.windows);
  const std::unique_ptr<T[]> first(new T[count * d]), apart(new T[places[count] * d]);
  T* const gradient = work.gradient;
  work.first = first.get(), work.gradient = apart.get(), work.places = places.get();
  ask_for_large_pages(work.gradient, sizeof(T) * places[count] * d);
  if (!run(work)) return NO_MEMORY;
  const auto add_up = [&](int64_t begin, int64_t end, void*) {
    for (int64_t s = begin; s < end; s++) {
      T* const sum = gradient + s * work.length * d;
      std::fill(sum, sum + work.length * d, T(0));
      for (int64_t w = 0; w < spans.windows; w++) {
        const int64_t row = s % spans.rows, number = s * spans.windows + w, points = spans.increments(row, w);
        T* to = sum + spans.start(row, w) * d;
        const T* from = &first[number * d];
        for (int64_t t = 0; t <= points; t++, to += spans.dilation * d) {
          for (int64_t c = 0; c < d; c++) to[c] += from[c];
          from = &apart[(places[number] + t + 1) * d];
        }
      }
    }
  };
  return on_all_threads(work.samples, threads, 64, add_up) ? GOOD : NO_MEMORY;
}

template <class T>
Answer backward(const Level& level, int channels, int depth, int64_t words, const Work<T>& work,
                int64_t threads) noexcept try {
  const Plan plan = plan_for(channels, depth, words);
  threads = threads_for(plan, increments_of(work), threads);
  const auto run = [&](const Work<T>& work) {
    const auto part = [&](int64_t begin, int64_t end, void* space) {
      if constexpr (sizeof(T) == 4)
        level.backward32(plan, work, begin, end, space);
      else
        level.backward64(plan, work, begin, end, space);
    };
    return on_all_threads(work.samples * work.spans.windows, threads, level.workspace(plan, true), part);
  };
  return work.spans.consecutive() ? backward_consecutive(work, channels, run)
                                  : backward_apart(work, channels, threads, run);
} catch (...) {
  return NO_MEMORY;
}

inline Answer look(const Level& level, const Looks& looks, int64_t threads) noexcept try {
  const double work = double(looks.samples) * double(looks.draws) * double(std::min(looks.most, looks.length));
  if (work < 1e5) threads = 1;  // starting a thread would take longer
  const auto run = [&](int64_t begin, int64_t end, void* space) { level.look(looks, begin, end, space); };
  return on_all_threads(looks.samples, threads, level.look_workspace(looks), run, 1) ? GOOD : NO_MEMORY;
} catch (...) {
  return NO_MEMORY;
}

template <class T>
Answer join(const Level& level, Joins<T> joins, int64_t threads) noexcept try {
  const int64_t numbers = joins.rows * joins.windows, d = joins.channels;
  joins.words_at_three = d + d * (d - 1) / 2 + (d * d * d - d) / 3;
  std::vector<int64_t> used(joins.count, 0), level_depths(64, 0);
  joins.bits = 1;
  for (int64_t set = 0; set < joins.count; set++) {
    int64_t most = 0;
    for (int64_t i = 0; i < numbers; i++) {
      const int64_t count = joins.counts[set * numbers + i];
      used[set] |= count, most = std::max(most, count);
    }
    for (int bit = 0; bit < 62 && (bit == 0 || most >> bit); bit++) {
      level_depths[bit] = std::max(level_depths[bit], joins.depths[set]);
      joins.bits = std::max(joins.bits, bit + 1);
    }
    used[set] |= most == 0;  // windows in which nothing happens: their first round takes nothing
  }
  joins.used = used.data(), joins.level_depths = level_depths.data();
  std::atomic<bool> finite{true};
  const auto run = [&](int64_t begin, int64_t end, void* space) {
    bool good;
    if constexpr (sizeof(T) == 4)
      good = level.join32(joins, begin, end, space);
    else
      good = level.join64(joins, begin, end, space);
    if (!good) finite = false;
  };
  if (double(joins.samples) * double(joins.windows) * double(joins.total) < 1e5) threads = 1;
  if (!on_all_threads(joins.samples, std::max<int64_t>(1, threads), joins.bytes(), run)) return NO_MEMORY;
  return finite ? GOOD : NOT_FINITE;
} catch (...) {
  return NO_MEMORY;
}

}  // namespace neuralrde
