// A table of a document that a test makes from the code. It stands between the lines <!-- NAME --> and
// <!-- /NAME -->, and begins with two lines of heading. The test fails until the document has the rows; with
// SEPAL_WRITE=1 the test writes them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace sepal::test {

class DocumentTable {
 public:
  DocumentTable(std::string path, const std::string& name) : path_(std::move(path)) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines_.push_back(line);
    INFO(path_ << ": " << name);
    const auto begin = std::ranges::find(lines_, "<!-- " + name + " -->");
    const auto end = std::ranges::find(lines_, "<!-- /" + name + " -->");
    REQUIRE(end - begin >= 3);
    begin_ = static_cast<std::size_t>(begin - lines_.begin()) + 3;
    end_ = static_cast<std::size_t>(end - lines_.begin());
  }

  [[nodiscard]] std::vector<std::string> rows() const {
    return {lines_.begin() + static_cast<std::ptrdiff_t>(begin_),
            lines_.begin() + static_cast<std::ptrdiff_t>(end_)};
  }
  // The last cell of the row that has this cell, which people write; empty if there is none.
  [[nodiscard]] std::string last_cell(std::string_view of) const {
    for (const std::string& row : rows()) {
      if (row.find("| " + std::string(of) + " |") == std::string::npos) continue;
      const std::size_t begin = row.rfind("| ", row.size() - 2) + 2;
      return begin + 2 > row.size() ? "" : row.substr(begin, row.size() - 2 - begin);
    }
    return {};
  }
  void expect(const std::vector<std::string>& expected) const {
    if (std::getenv("SEPAL_WRITE") != nullptr) {
      std::ofstream file(path_);
      for (std::size_t i = 0; i < begin_; ++i) file << lines_[i] << "\n";
      for (const std::string& row : expected) file << row << "\n";
      for (std::size_t i = end_; i < lines_.size(); ++i) file << lines_[i] << "\n";
    } else {
      CHECK(rows() == expected);
    }
  }

 private:
  std::string path_;
  std::vector<std::string> lines_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace sepal::test
