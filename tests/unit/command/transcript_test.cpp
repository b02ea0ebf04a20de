// Runs the transcripts, and proves that a transcript fails where a reply is not what it says.
#include "transcript.hpp"

#include "support/catch.hpp"

namespace sepal::command::testing {
namespace {

std::vector<std::string> failures_of(std::string_view text) {
  return transcript_failures("f", text);
}

TEST_CASE("transcripts") {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(SEPAL_SOURCE_FOLDER "/tests/unit/command/transcripts"))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  CHECK(paths.size() > 10);
  for (const std::filesystem::path& path : paths) {
    DYNAMIC_SECTION(path.stem().string()) {
      std::ostringstream text;
      text << std::ifstream(path, std::ios::binary).rdbuf();
      const auto name = std::filesystem::relative(path, SEPAL_SOURCE_FOLDER).string();
      for (const std::string& failure : transcript_failures(name, text.str())) FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("a transcript whose replies are right has no failures") {
  CHECK(failures_of("SET k a\n== one\nGET k -> $a\n  !> $b\nb: GET k -> ...\n3 * SET n# x\n? keys -> 4\n")
            .empty());
  CHECK(failures_of("== one\nMSET {k# v# *3}\nMGET {k# *3} -> *[$v0, $v1, $v2]\n").empty());
  CHECK(failures_of("== one\nSET k {xy*3}\nGET k -> ${xy*3}\nSET k \"a b\\x00\"\nGET k -> $a b\\x00\n")
            .empty());
  CHECK(failures_of(
            "== one\nBF.ADD k a\nDUMP k -> $<payload>\nRESTORE l 0 <payload> -> +OK\nDUMP l -> $<payload>\n")
            .empty());
  CHECK(failures_of("== one\n@ each a | b c\nECHO \"{each}\" -> ${each}\n-- x\nSET k x\n-- y\nSET k "
                    "y\n--\nSTRLEN k -> :1\n")
            .empty());
  CHECK(failures_of("== one\n@ record\nSET k a\n? recorded -> adopted k\nQUIT -> +OK (close)\n").empty());
}

TEST_CASE("a transcript fails where a reply is not what it says") {
  CHECK(failures_of("== one\nPING -> +PANG\n") ==
        std::vector<std::string>{"f:2: PING -> +PANG\n  expected: +PANG\n  seen:     +PONG\n  in: one"});
  for (const char* wrong : {"PING -> +PON",
                            "PING -> +PONG ",
                            "PING -> ",
                            "PING -> ...X",
                            "PING -> X...",
                            "PING -> +P...X...G",
                            "QUIT -> +OK",
                            "PING -> +PONG...PONG",
                            "? keys -> 1",
                            "PING\n  !> +PONG",
                            "PING\n  !> ...",
                            "PING\n  -> +PANG",
                            "? nothing -> 1",
                            "NOSUCH",
                            "@ nothing",
                            "PING \"x -> $x",
                            "2 * SET k# x\nEXISTS k0 k1 k2 -> :3",
                            "GET k -> $<x>\nECHO a -> $<x>",
                            "@ each a | b\nECHO {each} -> $a",
                            "-- one\nSET k x\n-- two\n--\nGET k -> $x"}) {
    CAPTURE(wrong);
    CHECK(failures_of("== one\n" + std::string(wrong) + "\n").size() == 1);
  }
  CHECK(failures_of("SET k a\n== one\nGET k -> $a\n== two\nGET k -> $b\n").size() == 1);
  CHECK_THROWS(failures_of("== one\n-- a\nPING\n--\n-- b\nPING\n"));
}

}  // namespace
}  // namespace sepal::command::testing
