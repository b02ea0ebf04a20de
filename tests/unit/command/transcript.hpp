// Transcripts: tests that are requests and their replies, in the text files of the folder transcripts/.
//
//   # A comment. Lines before the first == begin each case of the file.
//   == a key is found before its deadline      a case: a new server, and a client "a"
//   BF.ADD k a                                 a request; its reply must be no error
//   PTTL k -> :-1                              its reply must be this
//     !> :-2                                   and must not be this
//   bob: GET "a b\r\n\x00" -> -NOPERM ...      a request of client "bob"; "..." is any text
//   DEL k -> ...                               its reply may be anything
//   300 * SET k# x                             300 requests: # is 0, 1 ... 299
//   MGET {k# *9} -> *[$x{, $x*8}]              {TEXT*9} is TEXT nine times, in a request with numbers
//   DUMP k -> $<payload>                       <payload> is any text, and from here on that one
//   RESTORE l 0 <payload>
//   @ pass 999 ms                              the test does something: see `deeds` in transcript_world.cpp
//   ? gate -> 1                                the test looks at something: see `looks` there
//   -- and then one thing happens              a branch: the case runs once for each branch,
//   -- or another                              with the lines before all branches,
//   --                                         and the lines behind this one
//   @ each DEL a | RENAME a b                  the case runs once for each of these, in place of {each}
//
// A reply is written as readable() of world.hpp tells it, with \r, \n, \xFF for bytes that are no text.
// "(close)" behind it: the connection is closed. "(wait)", "(later)", "(held)": there is no reply yet.
// "(nothing)": the reply is empty. A word with a blank or nothing in it has quotes.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command::testing {

struct TranscriptLine {
  int number = 0;
  std::string text;
};

// One run of a case.
struct TranscriptRun {
  std::string title;
  std::vector<TranscriptLine> lines;
};

// Throws std::runtime_error if a line has no place where it stands.
[[nodiscard]] std::vector<TranscriptRun> transcript_runs(std::string_view text);

// A request, a look (the client is "?"), or something done (the client is "@").
struct TranscriptStep {
  std::string client;
  std::vector<std::string> words;
  int times = 1;
};

// The texts that names stand for.
using Captured = std::map<std::string, std::string, std::less<>>;

// `line` is what stands before an arrow.
[[nodiscard]] TranscriptStep transcript_step(std::string_view line, const Captured& captured);

// Replaces each # of a text from `begin` on.
void number_marks(std::string& text, int number, std::size_t begin = 0);

// Whether `seen` is what the pattern says. The names of the pattern that stand for nothing yet get their
// texts.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view seen, Captured& captured);

// Bytes that are no text as \r, \n, \xFF; a long text is cut.
[[nodiscard]] std::string shown(std::string_view bytes);

// The first two words of each request, as "\nBF.ADD k ".
[[nodiscard]] std::string transcript_requests(std::string_view text);

// What went wrong: "FILE:LINE: REQUEST", what was expected, what was seen.
[[nodiscard]] std::vector<std::string> transcript_failures(std::string_view file, std::string_view text);

}  // namespace sepal::command::testing
