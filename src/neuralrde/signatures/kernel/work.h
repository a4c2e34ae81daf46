// What the kernels are asked to do. Plain data, so that code compiled for different processors can share it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace neuralrde {

// One row of a prefix tree: node q extends the word of node `parent[q]` of the row above by `letter[q]`; `word[q]` is
// where that word's coefficient stands in the state; its children in the row below are [children[q], children[q + 1]).
struct Nodes {
  int64_t count;
  const int32_t *parent, *letter, *word, *children;
};

// Chen's relation needs the words of every level below the last, but only the Lyndon words of the last: no level
// looks at the one above it, and only Lyndon words are read in the end. So the state is all words below the last level,
// shorter ones first and then as in a dictionary, and behind them the log-signature, whose last level is followed in
// place: Lyndon word w stands at below + w.
struct Plan {
  int32_t channels, depth;
  int64_t words;           // channels of the log-signature
  // For depth 4 and above only:
  int64_t below;           // words of fewer than `depth` letters
  const Nodes* trees;      // trees[(n - 1) * depth + (k - 1)]: words of length k that begin words of level n
  const int64_t* firsts;   // firsts[k]: the first Lyndon word of k letters, for k = 1, ..., depth + 1
  const uint32_t* numbers; // numbers[w * depth + j - 1]: the first j letters of Lyndon word w, read as digits, mod 2^32
};

// Where windows meet: NumPy has 64 bits for it, and so knows series of any length; JAX most often has 32.
struct Cuts {
  const int32_t* narrow;
  const int64_t* wide;
  int64_t operator[](int64_t i) const { return wide ? wide[i] : narrow[i]; }
};

// Windows are numbered through all samples: window w of sample s is s * windows + w.
template <class T>
struct Work {
  const T* path;        // (samples, length, channels)
  Cuts cuts;            // (cut_rows, windows + 1); sample s uses row s % cut_rows
  int64_t samples, length, windows, cut_rows;
  T* out;               // forward: (samples, windows, words)
  const T* cotangent;   // backward: the same shape
  T* gradient;          // backward: (samples, length, channels); a window writes its points but the first
  T* first;             // backward: (samples, windows, channels), what each window owes to its first point
};

// The same kernels compiled for one kind of processor.
struct Level {
  int32_t bytes;  // of a vector register
  size_t (*workspace)(const Plan&, bool backward);
  // Windows [begin, end). Forward answers whether everything was finite.
  bool (*forward32)(const Plan&, const Work<float>&, int64_t begin, int64_t end, void* workspace);
  bool (*forward64)(const Plan&, const Work<double>&, int64_t begin, int64_t end, void* workspace);
  void (*backward32)(const Plan&, const Work<float>&, int64_t begin, int64_t end, void* workspace);
  void (*backward64)(const Plan&, const Work<double>&, int64_t begin, int64_t end, void* workspace);
};

}  // namespace neuralrde
