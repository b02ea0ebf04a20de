#include "bloom/window/lane_kernel.hpp"

#include <algorithm>

#include "bloom/kernel/kernels.hpp"
#include "bloom/window/avx512_lane_kernel.hpp"
#include "bloom/window/plain_lane_kernel.hpp"

namespace sepal::bloom {
namespace {

// Made once, at the first use.
class LaneKernels {
 public:
  LaneKernels() {
    if (const LaneKernel* const vectors = avx512_lane_kernel(); vectors != nullptr)
      kernels_[count_++] = *vectors;
    const auto named = std::ranges::find(all(), kernel().name, &LaneKernel::name);
    chosen_ = named == all().end() ? kernels_.data() : &*named;
  }
  LaneKernels(const LaneKernels&) = delete;
  LaneKernels& operator=(const LaneKernels&) = delete;

  [[nodiscard]] std::span<const LaneKernel> all() const { return std::span(kernels_).first(count_); }
  [[nodiscard]] const LaneKernel& chosen() const { return *chosen_; }

 private:
  std::array<LaneKernel, 2> kernels_{plain_lane_kernel()};
  std::size_t count_ = 1;
  const LaneKernel* chosen_ = nullptr;
};

const LaneKernels& made_lane_kernels() {
  static const LaneKernels kernels;
  return kernels;
}

}  // namespace

std::span<const LaneKernel> lane_kernels() {
  return made_lane_kernels().all();
}

const LaneKernel& lane_kernel() {
  return made_lane_kernels().chosen();
}

}  // namespace sepal::bloom
