// A folder that stands for the root of a machine's files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace container_test {

class Root {
 public:
  Root() : path_(std::filesystem::temp_directory_path() / "sepal-root-XXXXXX") {
    std::string pattern = path_.string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  ~Root() { std::filesystem::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((path_ / path).parent_path());
    std::ofstream(path_ / path) << text << "\n";
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace container_test
