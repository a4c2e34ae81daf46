// The library's two doors: plain C functions for NumPy and PyTorch (through ctypes), and handlers for JAX (through XLA's
// foreign function interface). Behind them: run.h.
#include "run.h"
#include "xla/ffi/api/ffi.h"

// ---- for NumPy and PyTorch -----------------------------------------------------------------------------------------

using neuralrde::Work;

extern "C" {

// Which arguments the functions take: `INTERFACE` of _kernel.py.
int neuralrde_interface() { return 8; }

int neuralrde_vector_bytes() { return neuralrde::this_processor().bytes; }

double neuralrde_workspace(int64_t channels, int64_t depth, int64_t words, int64_t backward) {
  return neuralrde::workspace_for(int(channels), int(depth), words, backward != 0);
}

#define NEURALRDE_FOR_NUMPY(NAME, T)                                                                                 \
  int NAME(const T* path, const int64_t* table, T* out, int64_t samples, int64_t length, int64_t channels,           \
           int64_t rows, int64_t row_length, int64_t windows, int64_t dilation, int64_t words, int64_t depth,        \
           int64_t threads) {                                                                                        \
    const Work<T> work = {path, {{nullptr, table}, rows, row_length, windows, dilation}, samples, length, out};      \
    return neuralrde::forward<T>(neuralrde::this_processor(), int(channels), int(depth), words, work, threads);      \
  }
NEURALRDE_FOR_NUMPY(neuralrde_forward32, float)
NEURALRDE_FOR_NUMPY(neuralrde_forward64, double)
#undef NEURALRDE_FOR_NUMPY

#define NEURALRDE_FOR_NUMPY(NAME, T)                                                                                 \
  int NAME(const T* path, const int64_t* table, const T* cotangent, T* gradient, int64_t samples, int64_t length,    \
           int64_t channels, int64_t rows, int64_t row_length, int64_t windows, int64_t dilation, int64_t words,     \
           int64_t depth, int64_t threads) {                                                                         \
    const Work<T> work = {path, {{nullptr, table}, rows, row_length, windows, dilation}, samples, length, nullptr,   \
                          cotangent, gradient};                                                                      \
    return neuralrde::backward<T>(neuralrde::this_processor(), int(channels), int(depth), words, work, threads);     \
  }
NEURALRDE_FOR_NUMPY(neuralrde_backward32, float)
NEURALRDE_FOR_NUMPY(neuralrde_backward64, double)
#undef NEURALRDE_FOR_NUMPY

int neuralrde_look(const float* scaled, const float* each, const float* changes, const int64_t* lengths,
                   const int32_t* plan, const float* mixtures, const float* scales, const float* map, const float* at,
                   const float* rival, const int64_t* firsts, float* out, int64_t samples, int64_t length,
                   int64_t channels, int64_t draws, int64_t most, int64_t maps, int64_t thresholds, int64_t rivals,
                   int64_t features, int64_t parts, int64_t threads) {
  const neuralrde::Looks looks = {{scaled, each, changes}, lengths, plan, mixtures, scales, map,  at,
                                  rival, firsts, out, samples, length, channels, draws, most, maps,
                                  thresholds, rivals, features, parts};
  return neuralrde::look(neuralrde::this_processor(), looks, threads);
}

#define NEURALRDE_FOR_NUMPY(NAME, T)                                                                                 \
  int NAME(const T* from, T* out, const int64_t* last, const int64_t* counts, const int64_t* depths, int64_t samples, \
           int64_t pieces, int64_t windows, int64_t channels, int64_t words, int64_t total, int64_t rows,            \
           int64_t count, int64_t threads) {                                                                         \
    const neuralrde::Joins<T> joins = {from,  out,  samples, pieces, windows, channels, words,                       \
                                       total, rows, count,   last,   counts,  depths};                               \
    return neuralrde::join<T>(neuralrde::this_processor(), joins, threads);                                          \
  }
NEURALRDE_FOR_NUMPY(neuralrde_join32, float)
NEURALRDE_FOR_NUMPY(neuralrde_join64, double)
#undef NEURALRDE_FOR_NUMPY
}

// ---- for JAX ------------------------------------------------------------------------------------------------------

namespace ffi = xla::ffi;

// Leading dimensions are samples; the table of windows may have fewer or none.
template <class Dimensions>
static int64_t rows(const Dimensions& dimensions, int trailing) {
  int64_t count = 1;
  for (size_t i = 0; i + trailing < dimensions.size(); i++) count *= dimensions[i];
  return count;
}

template <ffi::DataType TYPE, class T = ffi::NativeType<TYPE>>
static Work<T> describe(ffi::Buffer<TYPE>& path, ffi::Buffer<ffi::S32>& table, int64_t windows, int64_t dilation) {
  const auto shape = path.dimensions(), table_shape = table.dimensions();
  const neuralrde::Spans spans = {{table.typed_data(), nullptr}, rows(table_shape, 1), table_shape.back(), windows, dilation};
  return {path.typed_data(), spans, rows(shape, 2), shape[shape.size() - 2]};
}

// Nothing can be raised for NaN and infinity inside a compiled computation: they are in the result for all to see.
static ffi::Error answer(neuralrde::Answer answer) {
  if (answer != neuralrde::NO_MEMORY) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, "not enough memory for a log-signature of this depth");
}

template <ffi::DataType TYPE>
static ffi::Error jax_forward(ffi::Buffer<TYPE> path, ffi::Buffer<ffi::S32> table, ffi::ResultBuffer<TYPE> out,
                              int64_t windows, int64_t dilation, int64_t depth, int64_t threads) {
  auto work = describe<TYPE>(path, table, windows, dilation);
  work.out = out->typed_data();
  return answer(neuralrde::forward(neuralrde::this_processor(), int(path.dimensions().back()), int(depth),
                                   out->dimensions().back(), work, threads));
}

template <ffi::DataType TYPE>
static ffi::Error jax_backward(ffi::Buffer<TYPE> path, ffi::Buffer<ffi::S32> table, ffi::Buffer<TYPE> cotangent,
                               ffi::ResultBuffer<TYPE> gradient, int64_t windows, int64_t dilation, int64_t depth,
                               int64_t threads) {
  auto work = describe<TYPE>(path, table, windows, dilation);
  work.cotangent = cotangent.typed_data();
  work.gradient = gradient->typed_data();
  return answer(neuralrde::backward(neuralrde::this_processor(), int(path.dimensions().back()), int(depth),
                                    cotangent.dimensions().back(), work, threads));
}

#define NEURALRDE_FOR_JAX(NAME, FUNCTION, TYPE, ARGUMENTS)                                                           \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, FUNCTION<TYPE>,                                                                \
                                ARGUMENTS.Ret<ffi::Buffer<TYPE>>()                                                   \
                                    .Attr<int64_t>("windows")                                                        \
                                    .Attr<int64_t>("dilation")                                                       \
                                    .Attr<int64_t>("depth")                                                          \
                                    .Attr<int64_t>("threads"))
#define NEURALRDE_PATH(TYPE) ffi::Ffi::Bind().Arg<ffi::Buffer<TYPE>>().Arg<ffi::Buffer<ffi::S32>>()

NEURALRDE_FOR_JAX(neuralrde_jax_forward32, jax_forward, ffi::F32, NEURALRDE_PATH(ffi::F32));
NEURALRDE_FOR_JAX(neuralrde_jax_forward64, jax_forward, ffi::F64, NEURALRDE_PATH(ffi::F64));
NEURALRDE_FOR_JAX(neuralrde_jax_backward32, jax_backward, ffi::F32,
                  NEURALRDE_PATH(ffi::F32).Arg<ffi::Buffer<ffi::F32>>());
NEURALRDE_FOR_JAX(neuralrde_jax_backward64, jax_backward, ffi::F64,
                  NEURALRDE_PATH(ffi::F64).Arg<ffi::Buffer<ffi::F64>>());
