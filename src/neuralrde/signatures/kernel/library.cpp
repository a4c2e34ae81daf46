// The library's two doors: plain C functions for NumPy (through ctypes), and handlers for JAX (through XLA's foreign
// function interface). Behind them: the word tables, the threads, and the choice of kernels for this processor.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "work.h"
#include "xla/ffi/api/ffi.h"

namespace neuralrde {

extern const Level level_baseline;
#if defined(__x86_64__)
extern const Level level_x86_64_v3, level_x86_64_v4;
#endif

static const Level& this_processor() {
#if defined(__x86_64__)
  static const Level& level = []() -> const Level& {
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    return v4 ? level_x86_64_v4 : v3 ? level_x86_64_v3 : level_baseline;
  }();
  return level;
#else
  return level_baseline;
#endif
}

// ---- word tables --------------------------------------------------------------------------------------------------

using Word = std::vector<int32_t>;

// Duval's algorithm, as in lyndon.py: by length, then as in a dictionary.
static std::vector<Word> lyndon_words(int channels, int depth) {
  std::vector<Word> words;
  Word word = {-1};
  while (!word.empty()) {
    word.back()++;
    words.push_back(word);
    const size_t prefix = word.size();
    while (int(word.size()) < depth) word.push_back(word[word.size() - prefix]);
    while (!word.empty() && word.back() == channels - 1) word.pop_back();
  }
  std::stable_sort(words.begin(), words.end(), [](const Word& a, const Word& b) { return a.size() < b.size(); });
  return words;
}

// Owns the tables that a Plan points to. Depth 3 and below need none.
class Tables {
 public:
  Plan plan;

  Tables(int channels, int depth, int64_t words) : plan{channels, depth, words, 0, 0, 0, nullptr, nullptr, nullptr} {
    if (depth <= 3) return;
    const std::vector<Word> lyndon = lyndon_words(channels, depth);
    for (int k = 1; k < depth; k++) starts_.push_back(plan.state), plan.state += power(channels, k);
    starts_.push_back(plan.state);
    plan.below = plan.state;
    std::map<Word, int32_t> top;  // the Lyndon words of the last level
    for (const Word& word : lyndon)
      if (int(word.size()) == depth) top[word] = int32_t(plan.state++);

    auto place = [&](const int32_t* letters, int length) {
      if (length == depth) return top.at(Word(letters, letters + length));
      int64_t position = 0;
      for (int i = 0; i < length; i++) position = position * channels + letters[i];
      return int32_t(starts_[length - 1] + position);
    };
    for (const Word& word : lyndon) {
      lengths_.push_back(int32_t(word.size()));
      const size_t base = factors_.size();
      factors_.resize(base + depth * depth, 0);
      for (int i = 0; i < int(word.size()); i++)
        for (int j = i + 1; j <= int(word.size()); j++)
          factors_[base + i * depth + j - 1] = place(word.data() + i, j - i);
    }
    rows_.resize(depth * depth);
    for (int level = 1; level <= depth; level++) {
      std::vector<Word> above = {{}};
      for (int k = 1; k <= level; k++) {
        std::vector<Word> words;
        Row& row = rows_[(level - 1) * depth + k - 1];
        for (int32_t parent = 0; parent < int32_t(above.size()); parent++) {
          if (k > 1) (&row)[-1].children.push_back(int32_t(words.size()));
          for (int32_t letter = 0; letter < channels; letter++) {
            Word word = above[parent];
            word.push_back(letter);
            if (level == depth && !begins(top, word)) continue;
            row.parent.push_back(parent), row.letter.push_back(letter);
            row.word.push_back(place(word.data(), k));
            words.push_back(std::move(word));
          }
        }
        if (k > 1) (&row)[-1].children.push_back(int32_t(words.size()));
        plan.widest = std::max(plan.widest, int64_t(words.size()));
        above = std::move(words);
      }
    }
    for (const Row& row : rows_)
      nodes_.push_back({int64_t(row.parent.size()), row.parent.data(), row.letter.data(), row.word.data(),
                        row.children.data()});
    plan.trees = nodes_.data(), plan.lengths = lengths_.data(), plan.factors = factors_.data();
  }

 private:
  struct Row {
    std::vector<int32_t> parent, letter, word, children;
  };
  std::vector<int64_t> starts_;
  std::vector<int32_t> lengths_, factors_;
  std::vector<Row> rows_;
  std::vector<Nodes> nodes_;

  static int64_t power(int64_t base, int exponent) { return exponent ? base * power(base, exponent - 1) : 1; }
  static bool begins(const std::map<Word, int32_t>& words, const Word& prefix) {
    const auto next = words.lower_bound(prefix);
    return next != words.end() && std::equal(prefix.begin(), prefix.end(), next->first.begin());
  }
};

// ---- threads ------------------------------------------------------------------------------------------------------

// Run windows [0, total) in pieces on all threads: `run(begin, end, workspace)`. False if there was no memory for it.
template <class Run>
static bool on_all_threads(int64_t total, int64_t threads, size_t workspace, const Run& run) {
  constexpr int64_t lanes = 16;  // pieces are whole groups of windows at any vector width
  const int64_t groups = (total + lanes - 1) / lanes;
  const int64_t piece = std::max<int64_t>(1, groups / (threads * 8)) * lanes;
  std::atomic<int64_t> next{0};
  std::atomic<bool> enough{true};
  auto worker = [&] {
    void* space = std::aligned_alloc(64, (workspace + 63) / 64 * 64);
    if (!space) enough = false;
    for (int64_t begin; enough && (begin = next.fetch_add(piece)) < total;)
      run(begin, std::min(begin + piece, total), space);
    std::free(space);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(threads, (total + piece - 1) / piece); i++) others.emplace_back(worker);
  worker();
  for (std::thread& thread : others) thread.join();
  return enough;
}

enum Answer : int { GOOD = 0, NOT_FINITE = 1, NO_MEMORY = 2 };

// Fresh memory comes in pages of 4 KiB, each a fault on first touch, which can cost more than the log-signature itself.
static void ask_for_large_pages(void* memory, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t page = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: failure is no harm
#endif
}

// Starting a thread costs some tens of microseconds: not worth it for less work than this (multiplications).
static int64_t threads_for(const Plan& plan, int64_t points, int64_t threads) {
  return double(points) * double(plan.words + plan.widest) < 5e5 ? 1 : std::max<int64_t>(1, threads);
}

template <class T>
static Answer forward(int channels, int depth, int64_t words, const Work<T>& work, int64_t threads) {
  const Tables tables(channels, depth, words);
  const Level& level = this_processor();
  ask_for_large_pages(work.out, sizeof(T) * work.samples * work.windows * words);
  std::atomic<bool> finite{true};
  threads = threads_for(tables.plan, work.samples * work.length, threads);
  const auto run = [&](int64_t begin, int64_t end, void* space) {
    bool good;
    if constexpr (sizeof(T) == 4)
      good = level.forward32(tables.plan, work, begin, end, space);
    else
      good = level.forward64(tables.plan, work, begin, end, space);
    if (!good) finite = false;
  };
  if (!on_all_threads(work.samples * work.windows, threads, level.workspace(tables.plan, false), run)) return NO_MEMORY;
  return finite ? GOOD : NOT_FINITE;
}

template <class T>
static Answer backward(int channels, int depth, int64_t words, Work<T> work, int64_t threads) {
  const Tables tables(channels, depth, words);
  const Level& level = this_processor();
  const int64_t d = channels;
  std::unique_ptr<T[]> first(new (std::nothrow) T[work.samples * work.windows * d]);
  if (!first) return NO_MEMORY;
  work.first = first.get();
  ask_for_large_pages(work.gradient, sizeof(T) * work.samples * work.length * d);
  threads = threads_for(tables.plan, work.samples * work.length, threads);
  const auto run = [&](int64_t begin, int64_t end, void* space) {
    if constexpr (sizeof(T) == 4)
      level.backward32(tables.plan, work, begin, end, space);
    else
      level.backward64(tables.plan, work, begin, end, space);
  };
  if (!on_all_threads(work.samples * work.windows, threads, level.workspace(tables.plan, true), run)) return NO_MEMORY;
  // Points that end no window were not written; and every window's first point, which ends the window before it,
  // still misses that window's share.
  for (int64_t s = 0; s < work.samples; s++) {
    const int32_t* cuts = work.cuts + (s % work.cut_rows) * (work.windows + 1);
    T* const gradient = work.gradient + s * work.length * d;
    std::fill(gradient, gradient + (int64_t(cuts[0]) + 1) * d, T(0));
    std::fill(gradient + (int64_t(cuts[work.windows]) + 1) * d, gradient + work.length * d, T(0));
    for (int64_t w = 0; w < work.windows; w++)
      for (int64_t c = 0; c < d; c++) gradient[int64_t(cuts[w]) * d + c] += first[(s * work.windows + w) * d + c];
  }
  return GOOD;
}

}  // namespace neuralrde

// ---- for NumPy ----------------------------------------------------------------------------------------------------

using neuralrde::Work;

extern "C" {

int neuralrde_vector_bytes() { return neuralrde::this_processor().bytes; }

#define NEURALRDE_FOR_NUMPY(NAME, T)                                                                                 \
  int NAME(const T* path, const int32_t* cuts, T* out, int64_t samples, int64_t length, int64_t channels,            \
           int64_t windows, int64_t cut_rows, int64_t words, int64_t depth, int64_t threads) {                       \
    const Work<T> work = {path, cuts, samples, length, windows, cut_rows, out, nullptr, nullptr, nullptr};           \
    return neuralrde::forward<T>(int(channels), int(depth), words, work, threads);                                   \
  }
NEURALRDE_FOR_NUMPY(neuralrde_forward32, float)
NEURALRDE_FOR_NUMPY(neuralrde_forward64, double)
#undef NEURALRDE_FOR_NUMPY
}

// ---- for JAX ------------------------------------------------------------------------------------------------------

namespace ffi = xla::ffi;

// Leading dimensions are samples; the cuts may have fewer or none.
template <class Dimensions>
static int64_t rows(const Dimensions& dimensions, int trailing) {
  int64_t count = 1;
  for (size_t i = 0; i + trailing < dimensions.size(); i++) count *= dimensions[i];
  return count;
}

template <ffi::DataType TYPE, class T = ffi::NativeType<TYPE>>
static Work<T> describe(ffi::Buffer<TYPE>& path, ffi::Buffer<ffi::S32>& cuts) {
  const auto shape = path.dimensions(), cut_shape = cuts.dimensions();
  return {path.typed_data(), cuts.typed_data(), rows(shape, 2), shape[shape.size() - 2], cut_shape.back() - 1,
          rows(cut_shape, 1), nullptr, nullptr, nullptr, nullptr};
}

// Nothing can be raised for NaN and infinity inside a compiled computation: they are in the result for all to see.
static ffi::Error answer(neuralrde::Answer answer) {
  if (answer != neuralrde::NO_MEMORY) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "not enough memory for a log-signature of this depth");
}

template <ffi::DataType TYPE>
static ffi::Error jax_forward(ffi::Buffer<TYPE> path, ffi::Buffer<ffi::S32> cuts, ffi::ResultBuffer<TYPE> out,
                              int64_t depth, int64_t threads) {
  auto work = describe<TYPE>(path, cuts);
  work.out = out->typed_data();
  return answer(neuralrde::forward(int(path.dimensions().back()), int(depth), out->dimensions().back(), work, threads));
}

template <ffi::DataType TYPE>
static ffi::Error jax_backward(ffi::Buffer<TYPE> path, ffi::Buffer<ffi::S32> cuts, ffi::Buffer<TYPE> cotangent,
                               ffi::ResultBuffer<TYPE> gradient, int64_t depth, int64_t threads) {
  auto work = describe<TYPE>(path, cuts);
  work.cotangent = cotangent.typed_data();
  work.gradient = gradient->typed_data();
  return answer(
      neuralrde::backward(int(path.dimensions().back()), int(depth), cotangent.dimensions().back(), work, threads));
}

#define NEURALRDE_FOR_JAX(NAME, FUNCTION, TYPE, ARGUMENTS)                                                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, FUNCTION<TYPE>,                                                                \
                                ARGUMENTS.Ret<ffi::Buffer<TYPE>>().Attr<int64_t>("depth").Attr<int64_t>("threads"))
#define NEURALRDE_PATH(TYPE) ffi::Ffi::Bind().Arg<ffi::Buffer<TYPE>>().Arg<ffi::Buffer<ffi::S32>>()

NEURALRDE_FOR_JAX(neuralrde_jax_forward32, jax_forward, ffi::F32, NEURALRDE_PATH(ffi::F32));
NEURALRDE_FOR_JAX(neuralrde_jax_forward64, jax_forward, ffi::F64, NEURALRDE_PATH(ffi::F64));
NEURALRDE_FOR_JAX(neuralrde_jax_backward32, jax_backward, ffi::F32,
                  NEURALRDE_PATH(ffi::F32).Arg<ffi::Buffer<ffi::F32>>());
NEURALRDE_FOR_JAX(neuralrde_jax_backward64, jax_backward, ffi::F64,
                  NEURALRDE_PATH(ffi::F64).Arg<ffi::Buffer<ffi::F64>>());
