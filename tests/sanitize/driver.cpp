// Calls the kernel under the sanitizers: random shapes, every depth from 1 to 6, every vector width that this processor
// has, float and double, forward and backward, several threads, arrays in heap blocks of exactly their size; windows that
// follow each other, and others that overlap or leave points out; pieces that are joined, random looks.
// Results are compared with a plain reference, so that a run that reads the right memory for the wrong word fails too.
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

// The log-signature of the points first, first + dilation, ..., last of a path, in the order of the kernel: by length,
// then as in a dictionary.
static Numbers reference(const double* path, int64_t first, int64_t last, int channels, int depth, int64_t dilation = 1) {
  Tensor signature(channels, depth, 1.0);
  Numbers increment(channels);
  for (int64_t t = first; t < last; t += dilation) {
    for (int c = 0; c < channels; c++) increment[c] = path[(t + dilation) * channels + c] - path[t * channels + c];
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
  int64_t samples, length, windows, rows, row_length, dilation, words, threads;
  bool wide;  // numbers of 64 bits
  std::vector<int64_t> table;
  Numbers path, cotangent, direction;

  explicit Case(std::mt19937& random) {
    const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    depth = pick(1, 6);
    channels = depth == 1 ? pick(1, 20) : depth == 2 ? pick(2, 18) : depth == 3 ? pick(2, 9) : depth < 6 ? pick(2, 4) : pick(2, 3);
    samples = pick(1, 5), length = pick(1, 40), windows = pick(1, 9), threads = pick(1, 4);
    rows = pick(0, 1) ? 1 : samples;
    wide = pick(0, 1);
    dilation = pick(0, 1) ? 1 : pick(1, 4);
    const bool consecutive = pick(0, 1);
    row_length = consecutive ? windows + 1 : 2 * windows;
    for (int64_t row = 0; row < rows; row++) {
      std::vector<int64_t> one;
      if (consecutive) {
        // Anything that never decreases: empty windows, and points before the first and behind the last.
        const int phase = pick(0, int(std::min(dilation, length)) - 1), last = int((length - 1 - phase) / dilation);
        for (int64_t w = 0; w <= windows; w++) one.push_back(phase + dilation * pick(0, last));
        std::sort(one.begin(), one.end());
      } else {
        // Anywhere, in any order: empty ones, the same one twice, one inside another.
        one.resize(2 * windows);
        for (int64_t w = 0; w < windows; w++) {
          one[w] = pick(0, int(length) - 1);
          one[windows + w] = one[w] + dilation * pick(0, int((length - 1 - one[w]) / dilation));
        }
      }
      table.insert(table.end(), one.begin(), one.end());
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
        const int64_t* row = &table[(s % rows) * row_length];
        const Numbers one = reference(&path[s * length * channels], row[w], row[row_length - windows + w], channels, depth, dilation);
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
    const auto narrow = copy(table, int32_t(0));
    const auto full = copy(table, int64_t(0));
    const Indices where = wide ? Indices{nullptr, full.get()} : Indices{narrow.get(), nullptr};
    const std::unique_ptr<T[]> out(new T[values.size()]), gradient(new T[path.size()]);

    Work<T> work = {x.get(), {where, rows, row_length, windows, dilation}, samples, length, out.get()};
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

// Runs of pieces, joined from the pieces' log-signatures, beside the log-signatures of their points.
template <class T>
static void join_pieces(const Level& level, std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const bool many = pick(0, 9) == 0;  // more than a tile has columns
  const int64_t channels = many ? pick(1, 2) : pick(1, 5), samples = many ? 1 : pick(1, 4), sets = pick(1, 3);
  const int64_t pieces = many ? pick(120, 300) : pick(1, 30), windows = many ? pick(120, 300) : pick(1, 30);
  const int64_t rows = pick(0, 1) ? 1 : samples;
  std::normal_distribution<double> normal;
  Numbers path(samples * (pieces + 1) * channels);
  for (double& value : path) value = float(0.05 * normal(random));
  std::vector<int64_t> depths, last, counts;
  int64_t deepest = 1, total = 0;
  const auto words_of = [&](int64_t depth) { return int64_t(reference(path.data(), 0, 0, int(channels), int(depth)).size()); };
  for (int64_t set = 0; set < sets; set++) {
    depths.push_back(channels == 1 ? 1 : pick(1, 3));
    deepest = std::max(deepest, depths.back()), total += words_of(depths.back());
  }
  for (int64_t i = 0; i < rows * windows; i++) last.push_back(pick(0, int(pieces) - 1));
  const bool uniform = pick(0, 1);
  for (int64_t set = 0; set < sets; set++) {
    const int same = pick(0, 20);
    for (int64_t i = 0; i < rows * windows; i++) counts.push_back(uniform ? same : pick(0, int(last[i]) + 2));
  }
  // Pieces of one increment each.
  const int64_t words = words_of(deepest);
  std::unique_ptr<T[]> from(new T[samples * pieces * words]), out(new T[samples * windows * total]);
  for (int64_t s = 0; s < samples; s++)
    for (int64_t p = 0; p < pieces; p++) {
      const Numbers one = reference(&path[s * (pieces + 1) * channels], p, p + 1, int(channels), int(deepest));
      for (int64_t w = 0; w < words; w++) from[(s * pieces + p) * words + w] = T(one[w]);
    }
  const Joins<T> joins = {from.get(), out.get(), samples, pieces, windows, channels, words, total, rows, sets,
                          last.data(), counts.data(), depths.data()};
  expect(join(level, joins, 3) == GOOD, "join answered");
  double off = 0;
  for (int64_t s = 0; s < samples; s++)
    for (int64_t q = 0; q < windows; q += 1 + windows / 6)  // the reference is slow
      for (int64_t set = 0, at = 0; set < sets; at += words_of(depths[set++])) {
        const int64_t end = last[(s % rows) * windows + q] + 1, count = counts[(set * rows + s % rows) * windows + q];
        const Numbers one = reference(&path[s * (pieces + 1) * channels], std::max<int64_t>(0, end - count), end,
                                      int(channels), int(depths[set]));
        for (size_t w = 0; w < one.size(); w++)
          off = std::max(off, std::fabs(one[w] - double(out[(s * windows + q) * total + at + int64_t(w)])));
      }
  // Values of order 1, from at most 300 pieces.
  expect(off <= (sizeof(T) == 8 ? 1e-12 : 1e-4), "join of " + std::to_string(sizeof(T)) + " bytes, off by " + std::to_string(off));
}

// Random looks: log-signatures of windows of mixtures, and counts of them by hand.
static void look_at_series(const Level& level, std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::normal_distribution<float> normal;
  const int64_t samples = pick(1, 20), length = pick(1, 120), channels = pick(1, 3), draws = pick(1, 4), most = pick(1, 80);
  const int64_t maps = pick(0, 9), thresholds = pick(1, int(Looks::most_thresholds)), rivals = Looks::group * pick(0, 2);
  const int64_t parts = pick(1, 4);
  constexpr int64_t W = Looks::most_words;
  const auto filled = [&](int64_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = normal(random);
    return values;
  };
  const std::vector<float> seen[3] = {filled(samples * channels * length), filled(samples * channels * length),
                                      filled(samples * channels * length)};
  std::vector<int64_t> lengths, firsts;
  for (int64_t s = 0; s < samples; s++) lengths.push_back(pick(1, int(length)));
  std::vector<int32_t> plan;
  int64_t features = 0;
  const auto words_of = [&](int64_t draw) {
    const int32_t* const row = &plan[5 * draw];
    return Looks::words(row[3]) + (row[0] == Looks::CHANGES ? 0 : row[3]);
  };
  for (int64_t draw = 0; draw < draws; draw++) {
    const int kind = pick(0, 2), dilation = pick(1, 5), kept = pick(1, 2), lag = kept == 2 ? pick(0, 9) : 0;
    for (const int number : {kind, dilation, lag, kept, dilation * pick(1, 8)}) plan.push_back(number);
    firsts.push_back(features);
    features += thresholds * (words_of(draw) + maps) + 2 * rivals;
  }
  const std::vector<float> mixtures = filled(draws * channels * 2), map = filled(draws * W * maps + 1);
  const std::vector<float> at = filled(draws * thresholds * (W + maps)), rival = filled(draws * W * rivals);
  const std::vector<float> scales(draws * W, 1.0f);
  std::vector<float> counts(samples * parts * features, 0.0f);
  Looks looks = {{seen[0].data(), seen[1].data(), seen[2].data()}, lengths.data(), plan.data(), mixtures.data(),
                 scales.data(), map.data(), at.data(), rival.data(), firsts.data(), counts.data(), samples, length,
                 channels, draws, most, maps, thresholds, rivals, features, parts};
  expect(look(level, looks, 3) == GOOD, "looks answered");
  const auto count_of = [&](int64_t s, int64_t part, int64_t feature) {
    return counts[(s * parts + part) * features + feature];
  };
  for (int64_t draw = 0; draw < draws; draw++) {
    const Look one = looks.look(draw);
    const int64_t words = words_of(draw);
    std::vector<float> logs(samples * most * words, 0.0f);
    Looks only = looks;
    only.plan += 5 * draw, only.mixtures += 2 * channels * draw, only.map = nullptr, only.draws = 1, only.out = logs.data();
    expect(look(level, only, 3) == GOOD, "a look answered");
    double off = 0;
    long miscounted = 0;
    for (int64_t s = 0; s < samples; s++) {
      const int64_t own = looks.windows_of(s, one.span), last = lengths[s] - 1;
      const auto mixed = [&](int64_t point, int64_t q) {
        point = std::min(point, last);
        if (one.lag && q == 1) point = std::max<int64_t>(0, point - one.lag), q = 0;
        double sum = 0;
        for (int64_t c = 0; c < channels; c++)
          sum += double(seen[one.kind][(s * channels + c) * length + point]) * mixtures[(draw * channels + c) * 2 + q];
        return sum;
      };
      for (int64_t w = 0; w < own; w++) {
        const int64_t start = Looks::start(w, own, std::max<int64_t>(0, last - one.span)), d = 1 + one.kept;
        Numbers path;
        for (int64_t offset = 0; offset <= one.span; offset += one.dilation) {
          path.push_back(double(offset) / one.span);
          for (int64_t q = 0; q < one.kept; q++) path.push_back(mixed(start + offset, q));
        }
        const Numbers expected = reference(path.data(), 0, one.span / one.dilation, int(d), one.kept == 1 ? 4 : 3);
        const float* const got = &logs[(s * most + w) * words];
        for (size_t k = 1; k < expected.size(); k++)
          off = std::max(off, std::abs(expected[k] - got[k - 1]) / (1 + std::abs(expected[k])));
        for (int64_t k = Looks::words(one.kept); k < words; k++)
          off = std::max(off, std::abs(mixed(start, k - Looks::words(one.kept)) - got[k]));
      }
      for (int64_t part = 0; part < parts; part++) {
        const int64_t begin = looks.first_of(part, own), end = looks.first_of(part + 1, own);
        // Of the numbers themselves, by which nothing is rounded on the way.
        for (int64_t q = 0; q < thresholds; q++)
          for (int64_t k = 0; k < words; k++) {
            float above = 0;
            for (int64_t w = begin; w < end; w++)
              above += logs[(s * most + w) * words + k] > at[(draw * thresholds + q) * (W + maps) + k];
            miscounted += count_of(s, part, firsts[draw] + q * (words + maps) + k) != above;
          }
        // One of eight wins a window, and all where nothing happens.
        int64_t still = 0;
        for (int64_t w = begin; w < end; w++) {
          bool moved = false;
          for (int64_t k = 0; k < words; k++) moved |= logs[(s * most + w) * words + k] != 0.0f;
          still += !moved;
        }
        for (int64_t first = 0; first < 2 * rivals; first += Looks::group) {
          float sum = 0;
          for (int64_t i = 0; i < Looks::group; i++)
            sum += count_of(s, part, firsts[draw] + thresholds * (words + maps) + first + i);
          miscounted += sum != float(end - begin + 7 * still);
        }
      }
    }
    expect(off <= 2e-3, "looks off by " + std::to_string(off));  // float32; fourth powers of numbers up to 10
    expect(miscounted == 0, "windows miscounted: " + std::to_string(miscounted));
  }
}

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
      if (i % 2) join_pieces<float>(*level, random), calls++;
      else join_pieces<double>(*level, random), calls++;
      if (i % 4 == 0) look_at_series(*level, random), calls += 2;
    }
  }
  // Enough work for several threads inside each call, from several callers at once.
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
        Work<double> work = {path.data(), {{nullptr, cuts.data()}, 1, windows + 1, windows, 1}, samples, length, out.data()};
        const Level& level = *levels[size_t(caller) % levels.size()];
        if (forward(level, channels, depth, words, work, 3) != GOOD) wrong++;
        work.cotangent = ones.data(), work.gradient = gradient.data();
        if (backward(level, channels, depth, words, work, 3) != GOOD) wrong++;
        // The same windows, as if they were any: another way to the same gradient.
        std::vector<int64_t> both(cuts.begin(), cuts.end() - 1);
        both.insert(both.end(), cuts.begin() + 1, cuts.end());
        Numbers again(path.size());
        work.spans = {{nullptr, both.data()}, 1, 2 * windows, windows, 1}, work.gradient = again.data();
        if (backward(level, channels, depth, words, work, 3) != GOOD) wrong++;
        for (size_t i = 0; i < again.size(); i++)
          if (std::fabs(again[i] - gradient[i]) > 1e-10 * (1 + std::fabs(gradient[i]))) wrong++;
        const Numbers last = reference(&path[(samples - 1) * length * channels], 297, 300, channels, depth);
        for (int64_t i = 0; i < words; i++)
          if (std::fabs(last[i] - out[out.size() - words + i]) > 1e-10 * (1 + std::fabs(last[i]))) wrong++;
      }
    });
  for (std::thread& caller : callers) caller.join();
  calls += 4 * 6 * 3;
  expect(wrong == 0, "several callers at once");
  std::printf("%d cases, %zu vector widths, %ld calls of the kernel, %d wrong\n", cases, levels.size(), calls, failures);
  return failures != 0;
}
