#include "bloom/kernel/kernels.hpp"

#include <sepal/bloom/kernel/choice.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>

#include "bloom/kernel/avx2_kernel.hpp"
#include "bloom/kernel/avx512_kernel.hpp"
#include "bloom/kernel/neon_kernel.hpp"
#include "bloom/kernel/plain_kernel.hpp"

namespace sepal::bloom {
namespace {

// Made once, at the first use.
class Kernels {
 public:
  Kernels() {
    for (const Kernel* const kernel : {neon_kernel(), avx2_kernel(), avx512_kernel()})
      if (kernel != nullptr) kernels_[count_++] = *kernel;
    chosen_ = &all().back();
    const char* const name = std::getenv(kernel_variable);  // NOLINT(concurrency-mt-unsafe)
    // A compose file or a unit may set it to nothing.
    if (name == nullptr || *name == '\0') return;
    const auto named = std::ranges::find(all(), std::string_view(name), &Kernel::name);
    if (named == all().end()) {
      unknown_ = name;
    } else {
      chosen_ = &*named;
    }
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // The plain one first, the fastest last.
  [[nodiscard]] std::span<const Kernel> all() const { return std::span(kernels_).first(count_); }
  [[nodiscard]] const Kernel& chosen() const { return *chosen_; }
  // What the environment names instead of a kernel.
  [[nodiscard]] const std::optional<std::string>& unknown() const { return unknown_; }

 private:
  std::array<Kernel, 4> kernels_{plain_kernel()};
  std::size_t count_ = 1;
  const Kernel* chosen_ = nullptr;
  std::optional<std::string> unknown_;
};

const Kernels& made_kernels() {
  static const Kernels kernels;
  return kernels;
}

}  // namespace

std::span<const Kernel> kernels() {
  return made_kernels().all();
}

const Kernel& kernel() {
  return made_kernels().chosen();
}

std::string_view kernel_name() {
  return kernel().name;
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernels()) names.push_back(kernel.name);
  return names;
}

Result<void> check_kernel() {
  const std::optional<std::string>& unknown = made_kernels().unknown();
  if (!unknown) return {};
  std::string sentence =
      std::string(kernel_variable) + " is '" + *unknown + "', and this processor can run: ";
  for (const Kernel& kernel : kernels())
    sentence.append(&kernel == kernels().data() ? "" : ", ").append(kernel.name);
  return fail(Errc::out_of_range, sentence);
}

void find_items(std::span<const Blocks> layers, Pending& pending) {
  kernel().find(layers, pending);
}

bool set_item(const Blocks& blocks, std::uint64_t block, const Fingerprint& item) {
  return kernel().set(blocks, block, item);
}

}  // namespace sepal::bloom
