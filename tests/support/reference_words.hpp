// Words that a server of the reference answers: the files of tests/golden/reference/.
#pragma once

#include <fstream>
#include <set>
#include <string>

#include "support/catch.hpp"

namespace sepal::test {

inline std::set<std::string> reference_words(const std::string& name) {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/tests/golden/reference/" + name);
  REQUIRE(file);
  std::set<std::string> words;
  for (std::string word; file >> word;) words.insert(word);
  return words;
}

}  // namespace sepal::test
