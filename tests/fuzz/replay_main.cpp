// Runs a fuzz target over the files of a corpus: fuzz_replay TARGET FOLDER. ctest uses it in builds without
// libFuzzer.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "fuzz_target.hpp"

namespace sepal::fuzz {
namespace {

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

std::size_t replay(Target target, const char* folder) {
  std::size_t inputs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    ++inputs;
  }
  return inputs;
}

}  // namespace

NamedTarget::NamedTarget(const char* name, Target target) {
  targets()[name] = target;
}

}  // namespace sepal::fuzz

int main(int argc, char** argv) {
  const auto found = argc == 3 ? sepal::fuzz::targets().find(argv[1]) : sepal::fuzz::targets().end();
  if (found == sepal::fuzz::targets().end()) return 2;
  const std::size_t inputs = sepal::fuzz::replay(found->second, argv[2]);
  std::printf("%zu inputs replayed\n", inputs);
  return inputs == 0 ? 1 : 0;  // An empty corpus proves nothing.
}
