// Which kernel looks items up and sets bits: one of those that this processor can run. All give the same
// answers. The fastest is taken, unless the environment names another, for measurements and to narrow down a
// fault.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/base/version.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sepal::bloom {

// The environment variable that names a kernel, or none if it is empty. It is read at the first use of a
// filter, and not again.
inline constexpr const char* kernel_variable = "SEPAL_KERNEL";

// All functions may be called by any thread.

// Of the kernel in use: "plain", "avx2", "avx512" or "neon".
[[nodiscard]] std::string_view kernel_name();
// Those that this processor can run: the plain one first, the fastest last.
[[nodiscard]] std::vector<std::string_view> kernel_names();
// Errors, with a sentence: out_of_range where the variable names none of these. Then the fastest is in use.
// Programs check it when they start.
Result<void> check_kernel();
// What --version prints: "sepald 1.0.0 (commit 0123456789ab), kernel avx2".
[[nodiscard]] inline std::string version_and_kernel(std::string_view program) {
  return version_line(program).append(", kernel ").append(kernel_name());
}

}  // namespace sepal::bloom
