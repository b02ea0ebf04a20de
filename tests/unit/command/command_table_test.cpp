// Checks the table's rows, and compares them with docs/protocol.md and with the recorded exchanges.
#include <sepal/command/table/command_table.hpp>

#include <cctype>

#include "support/catch.hpp"
#include "transcript.hpp"

namespace command_table_test {

using sepal::command::command_table;
using sepal::command::CommandSpec;
using sepal::command::find_command;
using sepal::command::Flag;

namespace {

std::vector<const CommandSpec*> all_rows() {
  std::vector<const CommandSpec*> rows;
  for (const CommandSpec& row : command_table()) {
    rows.push_back(&row);
    for (const CommandSpec& subcommand : row.subcommands) rows.push_back(&subcommand);
  }
  return rows;
}

const std::filesystem::path source_folder = SEPAL_SOURCE_FOLDER;

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Turns "client|setname" into "CLIENT SETNAME".
std::string as_written(std::string_view name) {
  std::string written(name);
  std::transform(written.begin(), written.end(), written.begin(),
                 [](unsigned char c) { return c == '|' ? ' ' : std::toupper(c); });
  return written;
}

const std::filesystem::path protocol = source_folder / "docs/protocol.md";

// A bar would end a cell of the table.
std::string escaped(std::string_view text) {
  std::string cell;
  for (const char letter : text) cell += letter == '|' ? "\\|" : std::string(1, letter);
  return cell;
}

// A command's line in docs/protocol.md.
std::string line_of(const CommandSpec& row) {
  const std::string syntax = (row.syntax.empty() ? "" : " ") + std::string(row.syntax);
  return "| `" + escaped(as_written(row.name) + syntax) + "` | " + escaped(row.summary) + " |";
}

// The row of such a line: that with the longest name with which the syntax begins. Null: it has none.
const CommandSpec* row_of(std::string_view line) {
  const CommandSpec* found = nullptr;
  for (const CommandSpec* row : all_rows()) {
    const std::string begin = "| `" + as_written(row->name);
    if (!line.starts_with(begin) || (line[begin.size()] != ' ' && line[begin.size()] != '`')) continue;
    if (found == nullptr || found->name.size() < row->name.size()) found = row;
  }
  return found;
}

// The document with the line of each command in its place. A command that it lacks follows the others of its
// group, which the author may move; a line that names no command is left out.
std::vector<std::string> with_commands(const std::vector<std::string>& lines) {
  std::vector<std::string> written;
  std::set<const CommandSpec*> missing;
  for (const CommandSpec* row : all_rows())
    if (row->run != nullptr) missing.insert(row);
  std::map<std::string_view, std::string> last_of_group;
  bool in_section = false;
  for (const std::string& line : lines) {
    if (line.starts_with("## ")) in_section = line == "## Commands";
    if (line.starts_with("### Filters in detail")) in_section = false;
    const bool is_command = in_section && line.starts_with("| `");
    const CommandSpec* const row = is_command ? row_of(line) : nullptr;
    if (row != nullptr && missing.erase(row) == 1) last_of_group[row->group] = line_of(*row);
    if (!is_command || row != nullptr) written.push_back(row == nullptr ? line : line_of(*row));
  }
  for (const CommandSpec* row : missing) {
    INFO(row->name << " is of a group that no table has");
    REQUIRE(last_of_group.contains(row->group));
    written.insert(std::ranges::find(written, last_of_group[row->group]) + 1, line_of(*row));
  }
  return written;
}

// The lines that only `some` has.
std::vector<std::string> missing_in(const std::vector<std::string>& others,
                                    const std::vector<std::string>& some) {
  std::vector<std::string> missing;
  for (const std::string& line : some)
    if (std::ranges::count(others, line) != std::ranges::count(some, line)) missing.push_back(line);
  return missing;
}

}  // namespace

TEST_CASE("rows are sorted, unique, and found in any case") {
  const auto rows = command_table();
  CHECK(std::is_sorted(rows.begin(), rows.end(),
                       [](const CommandSpec& a, const CommandSpec& b) { return a.name < b.name; }));
  for (const CommandSpec& row : rows) {
    CHECK(find_command(row.name) == &row);
    CHECK(find_command(as_written(row.name)) == &row);
    CHECK(find_command(std::string(row.name) + "x") == nullptr);
  }
  CHECK(find_command("") == nullptr);
  CHECK(find_command("client|id") == nullptr);
  CHECK(find_command("f.add") == nullptr);
  CHECK(find_command("bf.ad") == nullptr);
  CHECK(find_command(std::string(1 << 20, 'x')) == nullptr);
}

TEST_CASE("every row has a number of its own") {
  std::set<std::size_t> numbers;
  for (const CommandSpec* row : all_rows()) numbers.insert(sepal::command::command_row(*row));
  CHECK(numbers.size() == all_rows().size());
  CHECK(numbers.size() == sepal::command::command_row_count());
  CHECK(*numbers.rbegin() == numbers.size() - 1);
}

TEST_CASE("every row says what COMMAND needs") {
  for (const CommandSpec* row : all_rows()) {
    INFO(row->name);
    CHECK_FALSE(row->summary.empty());
    CHECK_FALSE(row->summary.ends_with('.'));
    CHECK_FALSE(row->since.empty());
    CHECK_FALSE(row->group.empty());
    CHECK_FALSE(row->complexity.empty());
    CHECK(row->categories.bits != 0);
    CHECK((row->run != nullptr || !row->subcommands.empty()));
    CHECK(row->arity != 0);
    CHECK((row->keys.first != 0 || row->keys.count_at != 0) == !row->keys.access.empty());
    // A key before those that are counted stands before their number.
    CHECK((row->keys.first == 0 || row->keys.count_at == 0 || row->keys.first < row->keys.count_at));
    CHECK((row->keys.first != 0) == (row->keys.step != 0));
    for (const CommandSpec& subcommand : row->subcommands)
      CHECK(subcommand.name.starts_with(std::string(row->name) + "|"));
  }
}

TEST_CASE("a command that writes is run alone, or asks for it when it must") {
  const std::set<std::string_view> asks{"bf.mirror", "expire",    "expireat", "persist",
                                        "pexpire",   "pexpireat", "getdel",   "getex"};
  for (const CommandSpec* row : all_rows()) {
    INFO(row->name);
    const bool may_ask =
        asks.contains(row->name) || (row->record_bytes != nullptr && !row->flags.has(Flag::alone));
    if (row->flags.has(Flag::write)) CHECK(row->flags.has(Flag::alone) != may_ask);
    CHECK_FALSE((row->flags.has(Flag::write) && row->flags.has(Flag::read_only)));
  }
}

TEST_CASE("docs/protocol.md has the table's commands; with SEPAL_WRITE=1 this test writes them") {
  std::vector<std::string> lines;
  std::istringstream text(text_of_file(protocol));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const std::vector<std::string> expected = with_commands(lines);
  if (std::getenv("SEPAL_WRITE") != nullptr) {
    std::ofstream file(protocol);
    for (const std::string& line : expected) file << line << "\n";
  } else {
    CHECK(missing_in(lines, expected) == std::vector<std::string>());
    CHECK(missing_in(expected, lines) == std::vector<std::string>());
  }
}

// All text of the recorded cases and of these tests, in lower case and without blanks; and the requests of
// the transcripts, a line for each.
std::string everything_sent() {
  std::string text;
  for (const char* folder : {"tests/golden/conformance/cases", "tests/unit/command"})
    for (const auto& entry : std::filesystem::directory_iterator(source_folder / folder))
      if (entry.is_regular_file()) text += lower(text_of_file(entry.path()));
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  for (const auto& entry :
       std::filesystem::directory_iterator(source_folder / "tests/unit/command/transcripts"))
    text += lower(sepal::command::testing::transcript_requests(text_of_file(entry.path())));
  return text;
}

// Turns "client|setname" into the words that a client sends.
std::string quoted_words(std::string_view name) {
  std::string words(name);
  if (const std::size_t bar = words.find('|'); bar != std::string::npos) words.replace(bar, 1, "\",\"");
  return "\"" + words + "\"";
}

TEST_CASE("every row is sent by a recorded exchange or by these tests") {
  const std::string sent = everything_sent();
  // The name alone is no exchange: it also occurs in lists of names like those above.
  const auto is_sent = [&](std::string_view name) {
    return sent.find("\"send\":[" + quoted_words(name)) != std::string::npos ||
           sent.find("send({" + quoted_words(name)) != std::string::npos ||
           sent.find("\n" + lower(as_written(name)) + " ") != std::string::npos;
  };
  CHECK_FALSE(is_sent("bf.lost"));
  for (const CommandSpec* row : all_rows()) {
    INFO(row->name);
    CHECK(is_sent(row->name));
  }
}

}  // namespace command_table_test
