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
// looks at the one above it, and only Lyndon words are read in the end.
struct Plan {
  int32_t channels, depth;
  int64_t words;           // channels of the log-signature
  // For depth 4 and above only:
  int64_t state;           // coefficients kept while following the path
  int64_t below;           // of these, those below the last level; they come first
  int64_t widest;          // nodes in the widest row of a tree
  const Nodes* trees;      // trees[(n - 1) * depth + (k - 1)]: words of length k that begin words of level n
  const int32_t* lengths;  // of each Lyndon word
  const int32_t* factors;  // factors[w * depth * depth + i * depth + (j - 1)]: where letters i to j of word w stand
};

// Windows are numbered through all samples: window w of sample s is s * windows + w.
template <class T>
struct Work {
  const T* path;        // (samples, length, channels)
  const int32_t* cuts;  // (cut_rows, windows + 1); sample s uses row s % cut_rows
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
