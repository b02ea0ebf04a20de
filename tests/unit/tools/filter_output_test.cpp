#include "tools/build/filter_output.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

namespace filter_output_test {

using namespace sepal;
using namespace sepal::tools;

TEST_CASE("a place where no filter file can go is refused") {
  const test::TemporaryFolder temporary;
  const std::string folder = temporary.path();
  const std::string file = folder + "/file";
  std::ofstream(file) << "a";
  const std::string pipe = folder + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::pair<std::string, std::string> wrong[] = {
      {folder, folder + " is there, and is not a file that can be replaced"},
      {pipe, pipe + " is there, and is not a file that can be replaced"},
      {folder + "/none/out", "cannot write into " + folder + "/none/: No such file or directory"},
      {file + "/out", "cannot write into " + file + "/: Not a directory"}};
  for (const auto& [output, why] : wrong) {
    const auto fit = check_output(output);
    REQUIRE_FALSE(fit);
    CHECK(fit.error().detail == why);
  }
  CHECK(check_output(file));
  const std::string hard = folder + "/hard";
  const std::string soft = folder + "/soft";
  REQUIRE(link(file.c_str(), hard.c_str()) == 0);
  REQUIRE(symlink("file", soft.c_str()) == 0);
  const std::vector<storage::Path> inputs{folder + "/none", file};
  for (const std::string& output : {file, hard, soft})
    CHECK(check_output(output, inputs).error().detail ==
          output + " is an input as well, and would be replaced");
  CHECK(check_output(folder + "/none", inputs));
  CHECK(check_output(folder + "/new"));
  CHECK(check_output("new"));
}

}  // namespace filter_output_test
