// Calls the kernel under the sanitizers: random shapes, every depth from 1 to 6, every vector width that this processor
// has, float and double, forward and backward, several threads, arrays in heap blocks of exactly their size. Results are
// compared with a plain reference, so that a run that reads the right memory for the wrong word fails too.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "run.h"

using namespace neuralrde;
using Numbers = std::vector<double>;

// ---- the reference: signatures and logarithms of all words, by their definitions -------------------------------------

static int64_t power(int64_t base, int exponent) { return exponent ? base * power(base, exponent - 1) : 1; }

// Level k of a tensor has base^k entries; level 0 is a number.
struct Tensor {
  std::vector<Numbers> levels;
  Tensor(int channels, int depth, double scalar) {
    for (int k = 0; k <= depth; k++) levels.emplace_back(power(channels, k), 0.0);
    levels[0][0] = scalar;
  }
};

static Tensor product(const Tensor& a, const Tensor& b) {
  Tensor out = a;
  for (size_t n = 0; n < a.levels.size(); n++) {
    std::fill(out.levels[n].begin(), out.levels[n].end(), 0.0);
    for (size_t k = 0; k <= n; k++)
      for (size_t i = 0; i < a.levels[k].size(); i++)
        for (size_t j = 0; j < b.levels[n - k].size(); j++)
          out.levels[n][i * b.levels[n - k].size() + j] += a.levels[k][i] * b.levels[n - k][j];
  }
  return out;
}

static Tensor exponential(const double* increment, int channels, int depth) {
  Tensor out(channels, depth, 1.0);
  for (int n = 1; n <= depth; n++)
    for (size_t i = 0; i < out.levels[n].size(); i++)
      out.levels[n][i] = out.levels[n - 1][i / channels] * increment[i % channels] / n;
  return out;
}

static Tensor logarithm(Tensor signature, int channels, int depth) {
  signature.levels[0][0] = 0.0;  // x of log(1 + x)
  Tensor sum(channels, depth, 0.0), term(channels, depth, 1.0);
  for (int k = 1; k <= depth; k++) {
    term = product(term, signature);
    for (int n = 1; n <= depth; n++)
      for (size_t i = 0; i < sum.levels[n].size(); i++) sum.levels[n][i] += (k % 2 ? 1.0 : -1.0) / k * term.levels[n][i];
  }
  return sum;
}

// A word is Lyndon if it comes strictly before all its proper suffixes.
static bool is_lyndon(const std::vector<int>& word) {
  for (size_t i = 1; i < word.size(); i++)
    if (!(word < std::vector<int>(word.begin() + i, word.end()))) return false;
  return true;
}

// The log-signature of the points [first, last] of a path, in the order of the kernel: by length, then as in a dictionary.
static Numbers reference(const double* path, int64_t first, int64_t last, int channels, int depth) {
  Tensor signature(channels, depth, 1.0);
  Numbers increment(channels);
  for (int64_t t = first; t < last; t++) {
    for (int c = 0; c < channels; c++) increment[c] = path[(t + 1) * channels + c] - path[t * channels + c];
    signature = product(signature, exponential(increment.data(), channels, depth));
  }
  const Tensor log = logarithm(signature, channels, depth);
  Numbers out;
  for (int n = 1; n <= depth; n++)
    for (int64_t i = 0; i < int64_t(log.levels[n].size()); i++) {
      std::vector<int> word(n);
      for (int64_t rest = i, k = n; k-- > 0; rest /= channels) word[k] = int(rest % channels);
      if (is_lyndon(word)) out.push_back(log.levels[n][i]);
    }
  return out;
}

// ---- cases ---------------------------------------------------------------------------------------------------------

static int failures = 0;

static void expect(bool good, const std::string& what) {
  if (good) return;
  failures++;
  std::fprintf(stderr, "WRONG: %s\n", what.c_str());
}

struct Case {
  int channels, depth;
  int64_t samples, length, windows, cut_rows, words, threads;
  bool wide;  // cuts of 64 bits
  std::vector<int64_t> cuts;
  Numbers path, cotangent, direction;

  explicit Case(std::mt19937& random) {
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    depth = pick(1, 6);
    channels = depth == 1 ? pick(1, 20) : depth == 2 ? pick(2, 18) : depth == 3 ? pick(2, 9) : depth < 6 ? pick(2, 4) : pick(2, 3);
    samples = pick(1, 5), length = pick(1, 40), windows = pick(1, 9), threads = pick(1, 4);
    cut_rows = pick(0, 1) ? 1 : samples;
    wide = pick(0, 1);
    // Anything that never decreases: empty windows, and points before the first and behind the last.
    for (int64_t row = 0; row < cut_rows; row++) {
      std::vector<int64_t> one;
      for (int64_t w = 0; w <= windows; w++) one.push_back(pick(0, int(length) - 1));
      std::sort(one.begin(), one.end());
      cuts.insert(cuts.end(), one.begin(), one.end());
    }
    std::normal_distribution<double> normal;
    const double offset = pick(0, 3) ? 0.0 : 100.0;
    for (int64_t i = 0; i < samples * length * channels; i++) {
      path.push_back(float(offset + 0.3 * normal(random)));  // numbers that float has too
      direction.push_back(normal(random));
    }
    words = int64_t(reference(path.data(), 0, 0, channels, depth).size());
    for (int64_t i = 0; i < samples * windows * words; i++) cotangent.push_back(float(normal(random)));
  }

  std::string name(const char* what, const Level& level, size_t bytes) const {
    char text[200];
    std::snprintf(text, sizeof text, "%s: channels %d, depth %d, samples %d, length %d, windows %d, vectors %d, float%d", what,
                  channels, depth, int(samples), int(length), int(windows), level.bytes, int(8 * bytes));
    return text;
  }

  // All log-signatures of a path, by the reference.
  Numbers expected(const Numbers& path) const {
    Numbers out;
    for (int64_t s = 0; s < samples; s++)
      for (int64_t w = 0; w < windows; w++) {
        const int64_t* cut = &cuts[(s % cut_rows) * (windows + 1) + w];
        const Numbers one = reference(&path[s * length * channels], cut[0], cut[1], channels, depth);
        out.insert(out.end(), one.begin(), one.end());
      }
    return out;
  }

  // The derivative of <cotangent, log-signatures> along `direction`, by central differences.
  double slope() const {
    const double h = 1e-5;
    Numbers right = path, left = path;
    for (size_t i = 0; i < path.size(); i++) right[i] += h * direction[i], left[i] -= h * direction[i];
    const Numbers up = expected(right), down = expected(left);
    double sum = 0;
    for (size_t i = 0; i < up.size(); i++) sum += cotangent[i] * (up[i] - down[i]) / (2 * h);
    return sum;
  }

  template <class T>
  void run(const Level& level, const Numbers& values, double slope) const {
    const auto copy = [](const auto& from, auto zero) {
      std::unique_ptr<decltype(zero)[]> block(new decltype(zero)[from.size()]);
      for (size_t i = 0; i < from.size(); i++) block[i] = decltype(zero)(from[i]);
      return block;
    };
    const auto x = copy(path, T(0)), bar = copy(cotangent, T(0));
    const auto narrow = copy(cuts, int32_t(0));
    const auto full = copy(cuts, int64_t(0));
    const Cuts where = wide ? Cuts{nullptr, full.get()} : Cuts{narrow.get(), nullptr};
    const std::unique_ptr<T[]> out(new T[values.size()]), gradient(new T[path.size()]);

    Work<T> work = {x.get(), where, samples, length, windows, cut_rows, out.get(), nullptr, nullptr, nullptr};
    expect(forward(level, channels, depth, words, work, threads) == GOOD, name("forward answered", level, sizeof(T)));
    double size = 1, off = 0;
    for (size_t i = 0; i < values.size(); i++) {
      size = std::max(size, std::fabs(values[i]));
      off = std::max(off, std::fabs(values[i] - double(out[i])));
    }
    // Sums of at most 39 increments: rounding of 1e-16 or 6e-8 each, and powers of a path that wanders up to 5.
    expect(off <= (sizeof(T) == 8 ? 1e-11 : 1e-3) * size, name("forward", level, sizeof(T)));

    work.out = nullptr, work.cotangent = bar.get(), work.gradient = gradient.get();
    expect(backward(level, channels, depth, words, work, threads) == GOOD, name("backward answered", level, sizeof(T)));
    double sum = 0, scale = 1;
    for (size_t i = 0; i < path.size(); i++) {
      sum += double(gradient[i]) * direction[i];
      scale += std::fabs(double(gradient[i]) * direction[i]);
    }
    // Central differences: 1e-10 times third derivatives, and 1e-16 / 1e-5 of rounding.
    expect(std::fabs(sum - slope) <= (sizeof(T) == 8 ? 1e-6 : 1e-3) * scale, name("backward", level, sizeof(T)));
  }
};

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 200;
  const std::vector<const Level*> levels = levels_here();
  std::mt19937 random(0);
  long calls = 0;
  for (int i = 0; i < cases; i++) {
    const Case one(random);
    const Numbers values = one.expected(one.path);
    const double slope = one.slope();
    for (const Level* level : levels) {
      one.run<float>(*level, values, slope);
      one.run<double>(*level, values, slope);
      calls += 4;
    }
  }
  // Enough work for several threads inside each call, from several callers at once: they share the kept tables.
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; caller++)
    callers.emplace_back([&, caller] {
      for (int depth = 1; depth <= 6; depth++) {
        const int channels = 3, samples = 8, length = 400, windows = 100;
        std::mt19937 own(7);
        std::normal_distribution<double> normal;
        Numbers path(samples * length * channels);
        for (double& value : path) value = normal(own);
        std::vector<int64_t> cuts;
        for (int w = 0; w <= windows; w++) cuts.push_back(w * 3);
        const int64_t words = int64_t(reference(path.data(), 0, 0, channels, depth).size());
        Numbers out(samples * windows * words), gradient(path.size()), ones(out.size(), 1.0);
        Work<double> work = {path.data(), {nullptr, cuts.data()}, samples, length, windows, 1, out.data(), nullptr, nullptr, nullptr};
        const Level& level = *levels[size_t(caller) % levels.size()];
        if (forward(level, channels, depth, words, work, 3) != GOOD) wrong++;
        work.cotangent = ones.data(), work.gradient = gradient.data();
        if (backward(level, channels, depth, words, work, 3) != GOOD) wrong++;
        const Numbers last = reference(&path[(samples - 1) * length * channels], 297, 300, channels, depth);
        for (int64_t i = 0; i < words; i++)
          if (std::fabs(last[i] - out[out.size() - words + i]) > 1e-10 * (1 + std::fabs(last[i]))) wrong++;
      }
    });
  for (std::thread& caller : callers) caller.join();
  calls += 4 * 6 * 2;
  expect(wrong == 0, "several callers at once");
  std::printf("%d cases, %zu vector widths, %ld calls of the kernel, %d wrong\n", cases, levels.size(), calls, failures);
  return failures != 0;
}
