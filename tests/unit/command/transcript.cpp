#include "transcript.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace sepal::command::testing {
namespace {

constexpr std::size_t shown_bytes_max = 600;
constexpr std::size_t name_bytes_max = 100;  // of a client, a command and its subcommand in a line

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "{TEXT*9}" becomes TEXT nine times; in a request, every # of it becomes the number. Other braces stay.
std::string repeated(std::string_view line, bool is_request) {
  std::string result;
  for (std::size_t brace = line.find('{'); brace != std::string_view::npos; brace = line.find('{')) {
    result += line.substr(0, brace);
    line.remove_prefix(brace);
    const std::size_t end = line.find('}');
    const std::size_t star = end == std::string_view::npos ? end : line.rfind('*', end);
    const std::string_view count =
        star == std::string_view::npos ? "" : line.substr(star + 1, end - star - 1);
    if (count.empty() || !std::ranges::all_of(count, is_digit)) {
      result += line.front();
      line.remove_prefix(1);
      continue;
    }
    const std::string_view piece = line.substr(1, star - 1);
    const auto times = static_cast<std::size_t>(std::stoi(std::string(count)));
    const bool numbered = is_request && piece.find('#') != std::string_view::npos;
    if (piece.size() == 1 && !numbered) {
      result.append(times, piece.front());
    } else {
      for (std::size_t number = 0; number < times; ++number) {
        const std::size_t begin = result.size();
        result += piece;
        if (numbered) number_marks(result, static_cast<int>(number), begin);
      }
    }
    line.remove_prefix(end + 1);
  }
  return result.append(line);
}

// The byte that "\..." at `at` stands for. `at` is then its last character.
char escaped(std::string_view text, std::size_t& at) {
  const char kind = ++at < text.size() ? text[at] : '\\';
  if (kind == 'x' && at + 2 < text.size()) {
    at += 2;
    return static_cast<char>(std::stoi(std::string(text.substr(at - 1, 2)), nullptr, 16));
  }
  constexpr std::string_view kinds = "rntab", bytes = "\r\n\t\a\b";
  const std::size_t found = kinds.find(kind);
  return found == std::string_view::npos ? kind : bytes[found];
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::size_t backslash = line.find('\\');
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == ' ') continue;
    std::string word;
    const bool quoted = line[at] == '"';
    if (quoted) ++at;
    for (;; ++at) {
      if (backslash < at) backslash = line.find('\\', at);
      const std::size_t stop = std::min({line.find(quoted ? '"' : ' ', at), backslash, line.size()});
      word += line.substr(at, stop - at);
      at = stop;
      if (at == line.size() || line[at] != '\\') break;
      word += escaped(line, at);
    }
    if (quoted && at == line.size()) throw std::runtime_error("a quote is not closed");
    words.push_back(std::move(word));
  }
  return words;
}

// "<name>" at `at`, or nothing.
std::string_view name_at(std::string_view text, std::size_t at) {
  if (text[at] != '<') return {};
  const std::size_t end = text.find('>', at);
  if (end == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const bool right = !name.empty() && std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
  return right ? name : std::string_view();
}

struct Piece {
  std::string before;  // then comes anything, which has this name
  std::string name;
};

// The pattern as texts with anything between two of them.
std::pair<std::vector<Piece>, std::string> pieces_of(std::string_view pattern, const Captured& captured) {
  std::vector<Piece> pieces;
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const std::size_t stop = std::min(pattern.find_first_of("<.\\", at), pattern.size());
    text += pattern.substr(at, stop - at);
    at = stop;
    if (at == pattern.size()) break;
    const std::string_view name = name_at(pattern, at);
    const auto known = captured.find(name);
    if (known != captured.end()) {
      text += known->second;
    } else if (!name.empty() || pattern.substr(at).starts_with("...")) {
      pieces.push_back({.before = std::exchange(text, {}), .name = std::string(name)});
    } else {
      text += pattern[at] == '\\' ? escaped(pattern, at) : pattern[at];
      continue;
    }
    at += name.empty() ? 2 : name.size() + 1;
  }
  return {std::move(pieces), std::move(text)};
}

// The lines of a case, its branches, and what {each} stands for.
class CaseReader {
 public:
  CaseReader(std::string title, std::vector<TranscriptLine> lines)
      : title_(std::move(title)), before_(std::move(lines)) {}

  void take(TranscriptLine line) {
    if (line.text == "--") {
      ended_ = true;
    } else if (line.text.starts_with("-- ")) {
      if (ended_)
        throw std::runtime_error("line " + std::to_string(line.number) + ": the branches have ended");
      branches_.push_back({.title = line.text.substr(3), .lines = {}});
    } else if (line.text.starts_with("@ each ")) {
      std::string_view rest = std::string_view(line.text).substr(7);
      for (std::size_t bar = rest.find(" | "); bar != std::string_view::npos; bar = rest.find(" | ")) {
        each_.emplace_back(rest.substr(0, bar));
        rest.remove_prefix(bar + 3);
      }
      each_.emplace_back(rest);
    } else {
      (ended_ ? after_ : branches_.empty() ? before_ : branches_.back().lines).push_back(std::move(line));
    }
  }

  void add_runs(std::vector<TranscriptRun>& runs) const {
    const std::vector<std::string> once{""};
    for (const std::string& each : each_.empty() ? once : each_) {
      if (branches_.empty()) runs.push_back(run_of({}, each));
      for (const TranscriptRun& branch : branches_) runs.push_back(run_of(branch, each));
    }
  }

 private:
  [[nodiscard]] TranscriptRun run_of(const TranscriptRun& branch, const std::string& each) const {
    TranscriptRun run{.title = title_, .lines = before_};
    if (!branch.title.empty()) run.title += " (" + branch.title + ")";
    run.lines.insert(run.lines.end(), branch.lines.begin(), branch.lines.end());
    run.lines.insert(run.lines.end(), after_.begin(), after_.end());
    for (TranscriptLine& line : run.lines) {
      for (std::size_t at = line.text.find("{each}"); at != std::string::npos;
           at = line.text.find("{each}", at))
        line.text.replace(at, 6, each);
    }
    return run;
  }

  std::string title_;
  std::vector<TranscriptLine> before_;
  std::vector<TranscriptRun> branches_;
  std::vector<TranscriptLine> after_;
  std::vector<std::string> each_;
  bool ended_ = false;
};

}  // namespace

void number_marks(std::string& text, int number, std::size_t begin) {
  for (std::size_t mark = text.find('#', begin); mark != std::string::npos; mark = text.find('#', mark))
    text.replace(mark, 1, std::to_string(number));
}

std::vector<TranscriptRun> transcript_runs(std::string_view text) {
  std::vector<TranscriptRun> runs;
  std::vector<TranscriptLine> prelude;
  std::vector<CaseReader> cases;
  for (int number = 1; !text.empty(); ++number) {
    TranscriptLine line{.number = number, .text = std::string(text.substr(0, text.find('\n')))};
    text.remove_prefix(std::min(line.text.size() + 1, text.size()));
    if (line.text.empty() || line.text.starts_with('#')) continue;
    if (line.text.starts_with("== ")) {
      cases.emplace_back(line.text.substr(3), prelude);
    } else if (cases.empty()) {
      prelude.push_back(std::move(line));
    } else {
      cases.back().take(std::move(line));
    }
  }
  for (const CaseReader& each : cases) each.add_runs(runs);
  return runs;
}

TranscriptStep transcript_step(std::string_view line, const Captured& captured) {
  TranscriptStep step{.client = "a", .words = {}};
  std::string_view first = line.substr(0, line.find(' '));
  if (std::ranges::all_of(first, is_digit) && line.substr(first.size()).starts_with(" * ")) {
    step.times = std::stoi(std::string(first));
    line.remove_prefix(first.size() + 3);
    first = line.substr(0, line.find(' '));
  }
  if (first == "?" || first == "@" || (first.size() > 1 && first.ends_with(':') && first.front() != '"')) {
    step.client = first.size() == 1 ? first : first.substr(0, first.size() - 1);
    line.remove_prefix(first.size());
  }
  step.words = words_of(repeated(line, true));
  if (step.words.empty()) throw std::runtime_error("no words");
  for (std::string& word : step.words) {
    for (std::size_t at = word.find('<'); at != std::string::npos; at = word.find('<', at)) {
      const std::string_view name = name_at(word, at);
      const auto known = captured.find(name);
      if (known != captured.end()) word.replace(at, name.size() + 2, known->second);
      at += known != captured.end() ? known->second.size() : 1;
    }
  }
  return step;
}

bool matches(std::string_view pattern, std::string_view seen, Captured& captured) {
  const std::string whole = repeated(pattern, false);
  const auto [pieces, last] = pieces_of(whole, captured);
  if (pieces.empty()) return seen == last;
  Captured found;
  std::string_view rest = seen;
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    const std::size_t place = at == 0 ? (rest.starts_with(pieces[0].before) ? 0 : std::string_view::npos)
                                      : rest.find(pieces[at].before);
    if (place == std::string_view::npos) return false;
    if (at > 0 && !pieces[at - 1].name.empty()) found[pieces[at - 1].name] = rest.substr(0, place);
    rest.remove_prefix(place + pieces[at].before.size());
  }
  if (!rest.ends_with(last)) return false;
  if (!pieces.back().name.empty()) found[pieces.back().name] = rest.substr(0, rest.size() - last.size());
  captured.merge(found);
  return true;
}

std::string shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, shown_bytes_max)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\r' || c == '\n' || c == '\\') {
      text += c == '\r' ? "\\r" : c == '\n' ? "\\n" : "\\\\";
    } else if (code < 0x20 || code >= 0x7f) {
      std::array<char, 5> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x", code);
      text += hex.data();
    } else {
      text += c;
    }
  }
  if (bytes.size() > shown_bytes_max)
    text += " (and " + std::to_string(bytes.size() - shown_bytes_max) + " bytes)";
  return text;
}

std::string transcript_requests(std::string_view text) {
  std::string requests;
  for (const TranscriptRun& run : transcript_runs(text)) {
    for (const TranscriptLine& line : run.lines) {
      std::istringstream words(line.text.substr(0, name_bytes_max));
      std::string name, subcommand;
      words >> name >> subcommand;
      if (subcommand == "*") words >> name >> subcommand;
      if (name.ends_with(':')) {
        name = std::move(subcommand);
        subcommand.clear();
        words >> subcommand;
      }
      requests += '\n' + name + ' ' + subcommand + ' ';
    }
  }
  return requests;
}

}  // namespace sepal::command::testing
