// The files of the status page, which are part of the program (cmake/SepalPage.cmake).
#pragma once

#include <span>
#include <string_view>

namespace sepal::app {

struct PageFile {
  std::string_view path;  // begins with '/'
  std::string_view content_type;
  std::string_view bytes;
};

[[nodiscard]] std::span<const PageFile> page_files();

}  // namespace sepal::app
