// The kernels for one kind of processor: each level_*.cpp includes this file and is compiled with its own flags.
#include "chen.h"
#include "closed_form.h"
#include "join.h"
#include "looks.h"

namespace neuralrde {
namespace {

// Short windows want short tiles, so that little is computed on padding.
template <class T, class Run>
auto with_tile(const Work<T>& work, const Run& run) {
  int64_t longest = 0;
  for (int64_t r = 0; r < work.spans.rows; r++)
    for (int64_t w = 0; w < work.spans.windows && longest <= 4; w++) {
      const int64_t count = work.spans.increments(r, w);
      if (count > longest) longest = count;
    }
  if (longest <= 2) return run(std::integral_constant<int, 2>());
  if (longest <= 4) return run(std::integral_constant<int, 4>());
  return run(std::integral_constant<int, 8>());
}

template <class T, int TILE, int D>
bool forward_with_channels(const Plan& plan, const Work<T>& work, int64_t begin, int64_t end, void* space) {
  ClosedForm<T, TILE, D> kernel(plan, work, space);
  return plan.depth == 2 ? kernel.template forward<2>(begin, end) : kernel.template forward<3>(begin, end);
}

// Depths from 4 on, known to the compiler.
template <int DEPTH = 4, class Run>
auto with_depth(int depth, const Run& run) {
  if constexpr (DEPTH < MOST_DEPTH)
    if (depth > DEPTH) return with_depth<DEPTH + 1>(depth, run);
  return run(std::integral_constant<int, DEPTH>());
}

template <class T>
bool forward(const Plan& plan, const Work<T>& work, int64_t begin, int64_t end, void* space) {
  if (plan.depth > 3)
    return plan.depth == 4 && plan.channels == 3
               ? Chen<T, 8, 3>(plan, work, space).template forward<4>(begin, end)
               : with_depth(plan.depth, [&](auto depth) { return Chen<T, 8>(plan, work, space).template forward<depth()>(begin, end); });
  return with_tile(work, [&](auto tile) {
    constexpr int TILE = tile();
    if (plan.depth == 1) return ClosedForm<T, TILE>(plan, work, space).template forward<1>(begin, end);
    if constexpr (TILE > 2) switch (plan.channels) {
      case 2: return forward_with_channels<T, TILE, 2>(plan, work, begin, end, space);
      case 3: return forward_with_channels<T, TILE, 3>(plan, work, begin, end, space);
      case 4: return forward_with_channels<T, TILE, 4>(plan, work, begin, end, space);
      case 5: return forward_with_channels<T, TILE, 5>(plan, work, begin, end, space);
      case 6: return forward_with_channels<T, TILE, 6>(plan, work, begin, end, space);
    }
    return forward_with_channels<T, TILE, 0>(plan, work, begin, end, space);
  });
}

template <class T>
void backward(const Plan& plan, const Work<T>& work, int64_t begin, int64_t end, void* space) {
  if (plan.depth > 3)
    return with_depth(plan.depth, [&](auto depth) { Chen<T, 8>(plan, work, space).template backward<depth()>(begin, end); });
  with_tile(work, [&](auto tile) {
    ClosedForm<T, tile()> kernel(plan, work, space);
    if (plan.depth == 1) return kernel.template backward<1>(begin, end);
    if (plan.depth == 2) return kernel.template backward<2>(begin, end);
    return kernel.template backward<3>(begin, end);
  });
}

template <class T>
bool join(const Joins<T>& joins, int64_t begin, int64_t end, void* space) {
  return Joiner<T>(joins, space).run(begin, end);
}

double workspace(const Plan& plan, bool backward) {
  // Vectors are equally wide for float and double.
  return BYTES * (plan.depth > 3 ? Chen<float, 8>::vectors(plan, backward)
                                 : double(ClosedForm<float, 8>::vectors(plan, backward)));
}

}  // namespace

extern const Level LEVEL;
const Level LEVEL = {BYTES, workspace, forward<float>, forward<double>, backward<float>, backward<double>,
                     join<float>, join<double>, look, Looker::bytes};

}  // namespace neuralrde
