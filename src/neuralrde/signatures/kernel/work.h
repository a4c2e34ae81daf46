// What the kernels are asked to do. Plain data, so that code compiled for different processors can share it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace neuralrde {

constexpr int MOST_DEPTH = 16;

// Depth 4 and above follow the words of every level below the last, but only the Lyndon words of the last: no level looks
// at the one above it, and only Lyndon words are read in the end. So the state is all words below the last level, shorter
// ones first and then as in a dictionary, and behind them the log-signature, whose last level is followed in place.
struct Plan {
  int32_t channels, depth;
  int64_t words;                   // channels of the log-signature
  int64_t below;                   // for depth 4 and above only: words of fewer than `depth` letters
  int64_t firsts[MOST_DEPTH + 2];  // and firsts[k], the first Lyndon word of k letters, for k = 1, ..., depth + 1
};

// Numbers of points: NumPy has 64 bits for them, and so knows series of any length; JAX most often has 32.
struct Indices {
  const int32_t* narrow;
  const int64_t* wide;
  int64_t operator[](int64_t i) const { return wide ? wide[i] : narrow[i]; }
};

// From which point to which each window runs. A row of the table is the windows' starts and then their ends. Windows that
// follow each other have windows + 1 numbers a row, the cuts: each ends where the next starts, so the ends are the starts
// moved by one. Others have 2 * windows.
struct Spans {
  Indices table;               // (rows, row_length); sample s uses row s % rows
  int64_t rows, row_length, windows;
  int64_t dilation;            // a window's points are start, start + dilation, ..., end

  bool consecutive() const { return row_length == windows + 1 && dilation == 1; }
  int64_t start(int64_t row, int64_t window) const { return table[row * row_length + window]; }
  int64_t end(int64_t row, int64_t window) const { return table[(row + 1) * row_length - windows + window]; }
  int64_t increments(int64_t row, int64_t window) const {
    const int64_t apart = end(row, window) - start(row, window);
    return dilation == 1 ? apart : apart / dilation;
  }
};

// Windows are numbered through all samples: window w of sample s is s * windows + w.
template <class T>
struct Work {
  const T* path;        // (samples, length, channels)
  Spans spans;
  int64_t samples, length;
  T* out;               // forward: (samples, windows, words)
  const T* cotangent;   // backward: the same shape
  T* gradient;          // backward: (samples, length, channels); a window writes its points but the first
  T* first;             // backward: (samples, windows, channels), what each window owes to its first point
  // Windows that share more than their ends cannot write to the same points. Each then has room of its own in `gradient`
  // for all its points, from point places[sample * windows + window] on; null for consecutive windows.
  const int64_t* places;
};

// What one of many random looks looks at: series scaled, each by itself, or changes; every `dilation`-th point; beside the
// first mixture of channels a second one, or the first as it was `lag` points ago; windows of `span` points.
struct Look {
  int32_t kind, dilation, lag, kept, span;
};

// Random looks at series, and what is counted in each; see looks.h.
struct Looks {
  static constexpr int64_t group = 8;            // maps of a contest
  static constexpr int64_t most_thresholds = 8;
  static constexpr int64_t most_words = 15;      // of a log-signature without time, and where the window starts
  static constexpr int32_t CHANGES = 2;          // of kinds
  static constexpr int64_t words(int64_t kept) { return kept == 1 ? 7 : 13; }

  const float* seen[3];    // (samples, channels, length): what each kind looks at
  const int64_t* lengths;  // (samples,)
  const int32_t* plan;     // (draws, 5)
  const float* mixtures;   // (draws, channels, 2)
  const float* scales;     // (draws, most_words)
  const float* map;        // (draws, most_words, maps), of words that are not scaled; null to write the words themselves
  const float* at;         // (draws, thresholds, most_words + maps)
  const float* rival;      // (draws, most_words, rivals)
  const int64_t* firsts;   // (draws,): where each look's features begin
  float* out;              // (samples, parts, features), or (samples, most, words)
  int64_t samples, length, channels, draws, most, maps, thresholds, rivals, features, parts;

  Look look(int64_t draw) const {
    const int32_t* const row = plan + 5 * draw;
    return {row[0], row[1], row[2], row[3], row[4]};
  }
  // Windows are evenly apart, at most so many, and at least one.
  int64_t windows_of(int64_t s, int64_t span) const {
    const int64_t room = lengths[s] - 1 - span;
    return room < 0 ? 1 : room + 1 < most ? room + 1 : most;
  }
  // The windows of a part of a series: those from first_of(part) to first_of(part + 1).
  int64_t first_of(int64_t part, int64_t windows) const { return (part * windows + parts - 1) / parts; }
  static int64_t start(int64_t window, int64_t windows, int64_t room) {
    return windows > 1 ? window * room / (windows - 1) : 0;
  }
  size_t counted() const { return size_t(thresholds * (most_words + maps) + 2 * rivals); }
};

// Windows that are runs of consecutive pieces, each of them by the pieces' log-signatures; up to depth 3. There may be
// several sets of windows (scales) of as many windows each, whose log-signatures stand side by side.
template <class T>
struct Joins {
  const T* from;         // (samples, pieces, words): the pieces' log-signatures
  T* out;                // (samples, windows, total)
  int64_t samples, pieces, windows, channels, words, total, rows, count;
  const int64_t* last;   // (rows, windows): each window's last piece; sample s uses row s % rows
  const int64_t* counts; // (count, rows, windows): how many pieces it has, in each set
  const int64_t* depths; // (count,)
  // Made by run.h:
  int bits;              // rounds
  int64_t words_at_three;
  const int64_t *used;   // (count,): the bits that any number of pieces of a set has
  const int64_t *level_depths;  // (bits,): the depth that is needed in each round

  // Numbers and indices of a thread's workspace.
  int64_t numbers() const {
    return words * (2 * (pieces + 1) + (2 + count) * windows) + (channels * (channels - 1) + 1) * 128;
  }
  size_t bytes() const { return size_t(numbers()) * sizeof(T) + 64 + size_t(windows) * sizeof(int64_t); }
  static void* behind(T* at) { return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(at) + 63) / 64 * 64); }
};

// The same kernels compiled for one kind of processor.
struct Level {
  int32_t bytes;  // of a vector register
  double (*workspace)(const Plan&, bool backward);  // bytes
  // Windows [begin, end). Forward answers whether everything was finite.
  bool (*forward32)(const Plan&, const Work<float>&, int64_t begin, int64_t end, void* workspace);
  bool (*forward64)(const Plan&, const Work<double>&, int64_t begin, int64_t end, void* workspace);
  void (*backward32)(const Plan&, const Work<float>&, int64_t begin, int64_t end, void* workspace);
  void (*backward64)(const Plan&, const Work<double>&, int64_t begin, int64_t end, void* workspace);
  // Samples [begin, end).
  bool (*join32)(const Joins<float>&, int64_t begin, int64_t end, void* workspace);
  bool (*join64)(const Joins<double>&, int64_t begin, int64_t end, void* workspace);
  void (*look)(const Looks&, int64_t begin, int64_t end, void* workspace);
  size_t (*look_workspace)(const Looks&);
};

}  // namespace neuralrde
