// Sentences about what is wrong with a file. They begin behind the file's name; whoever knows the name and
// what to do about it puts them around.
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::storage {

[[nodiscard]] Error damaged_at(std::uint64_t offset, std::string_view what);
[[nodiscard]] Error unsupported(std::uint32_t found, std::uint32_t known);

// Whether it is the file, and not what reads it or keeps it.
[[nodiscard]] bool is_damage(const Error& error);

// Bytes from a disk, fit for a message: short, and without what a terminal would act on.
[[nodiscard]] std::string printable(std::string_view bytes);

// `error` with its sentence behind the name of what it is about, or before what to do about it.
[[nodiscard]] Error about(std::string_view subject, const Error& error);
inline constexpr std::string_view restore_or_salvage =
    "restore the data directory from a backup, or save what is whole with sepal salvage";
[[nodiscard]] Error with_advice(const Error& error, std::string_view advice);

}  // namespace sepal::storage
