// SEPAL_FUZZ_TARGET(name) { ... } is what a fuzz target does with `data` of `size` bytes. With libFuzzer each
// target is a program. Without it, one program has all of them and knows them by their names
// (replay_main.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef SEPAL_FUZZ_REPLAY
namespace sepal::fuzz {
using Target = int (*)(const std::uint8_t* data, std::size_t size);
struct NamedTarget {
  NamedTarget(const char* name, Target target);
};
}  // namespace sepal::fuzz
#define SEPAL_FUZZ_TARGET(name)                                    \
  static int name(const std::uint8_t* data, std::size_t size);     \
  static const sepal::fuzz::NamedTarget named_##name(#name, name); \
  static int name(const std::uint8_t* data, std::size_t size)
#else
#define SEPAL_FUZZ_TARGET(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif
