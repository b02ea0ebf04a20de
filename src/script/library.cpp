#include <sepal/base/assert.hpp>
#include <sepal/base/digest.hpp>
#include <sepal/script/library.hpp>

#include <utility>

namespace sepal::script {
namespace {

constexpr std::string_view blanks = " \t\r";
constexpr std::string_view flags_option = "flags=";

// Takes the next word of the first line; empty when there is none.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

// Returns the error; empty if there is none.
std::string read_flag(std::string_view flag, Declared& declared) {
  if (flag == "no-writes") {
    declared.no_writes = true;
  } else if (flag == "allow-oom") {
    declared.allow_oom = true;
  } else if (flag != "allow-stale" && flag != "no-cluster" && flag != "allow-cross-slot-keys") {
    // The other three concern replicas and clusters: they have no effect here.
    return "Unexpected flag in script shebang: " + std::string(flag);
  }
  return {};
}

std::string read_option(std::string_view option, Declared& declared) {
  if (!option.starts_with(flags_option)) return "Unknown lua shebang option: " + std::string(option);
  std::string_view flags = option.substr(flags_option.size());
  while (!flags.empty()) {
    const std::string_view flag = flags.substr(0, flags.find(','));
    if (std::string error = read_flag(flag, declared); !error.empty()) return error;
    flags.remove_prefix(std::min(flags.size(), flag.size() + 1));
  }
  return {};
}

// `line` begins with "#!".
std::string read_declaration(std::string_view line, Declared& declared) {
  declared.any = true;
  const std::string_view engine = take_word(line);
  if (engine != "#!lua") return "Unexpected engine in script shebang: " + std::string(engine);
  for (std::string_view option = take_word(line); !option.empty(); option = take_word(line))
    if (std::string error = read_option(option, declared); !error.empty()) return error;
  return {};
}

}  // namespace

ParsedSource parse_source(std::string_view text) {
  auto source = std::make_shared<Source>();
  source->sha = sha1_hex(text);
  source->text = text;
  if (text.starts_with("#!")) {
    const std::size_t line_end = text.find('\n');
    if (line_end == std::string_view::npos) return {.source = nullptr, .error = "Invalid script shebang"};
    const std::string error = read_declaration(text.substr(0, line_end), source->declared);
    if (!error.empty()) return {.source = nullptr, .error = error};
    source->code_at = line_end;
  }
  return {.source = std::move(source), .error = {}};
}

std::shared_ptr<const Source> Library::use(std::string_view sha) {
  const auto found = entries_.find(sha);
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  // Moves the node to the end without a copy: `place` stays valid.
  if (entry.passing) passing_.splice(passing_.end(), passing_, entry.place);
  return entry.source;
}

bool Library::add(const std::shared_ptr<const Source>& source, bool passing, std::uint64_t bytes_max) {
  SEPAL_ASSERT(source != nullptr && source->sha.size() == sha_digits, "a script without its name");
  if (const auto known = entries_.find(source->sha); known != entries_.end()) {
    Entry& entry = known->second;
    // SCRIPT LOAD makes a passing script stay. EVAL of a script that stays changes nothing.
    if (entry.passing && !passing) passing_.erase(entry.place);
    entry.passing = entry.passing && passing;
    return true;
  }
  const std::uint64_t bytes = source->text.size() + entry_bytes;
  if (passing && passing_.size() >= passing_max) evict_oldest();
  while (byte_count_ + bytes > bytes_max && !passing_.empty()) evict_oldest();
  if (byte_count_ + bytes > bytes_max) {
    // The worker that has compiled it may drop it.
    source->forgotten = true;
    return false;
  }
  Entry entry{.source = source, .passing = passing};
  if (passing) entry.place = passing_.insert(passing_.end(), source->sha);
  byte_count_ += bytes;
  entries_.emplace(source->sha, std::move(entry));
  SEPAL_ASSERT(passing_.size() <= passing_max && passing_.size() <= entries_.size(),
               "more passing scripts are listed than are kept");
  return true;
}

void Library::evict_oldest() {
  const auto oldest = entries_.find(passing_.front());
  SEPAL_ASSERT(oldest != entries_.end(), "a passing script is listed");
  const std::uint64_t freed = oldest->second.source->text.size() + entry_bytes;
  SEPAL_ASSERT(oldest->second.passing && byte_count_ >= freed,
               "a script is evicted that was loaded to stay, or that takes more memory than all");
  byte_count_ -= freed;
  // A worker that has compiled it keeps its text until it looks for forgotten scripts
  // (State::drop_forgotten).
  oldest->second.source->forgotten = true;
  entries_.erase(oldest);
  passing_.pop_front();
  ++evicted_count_;
}

void Library::clear() {
  entries_.clear();
  passing_.clear();
  byte_count_ = 0;
  ++generation_;
}

}  // namespace sepal::script
