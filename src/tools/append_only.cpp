// The commands go through the dispatcher, so they do what they would do in sepald (decisions/0028). The
// dispatcher has one client, which may do everything, and the stand-ins of no_server.hpp.
//
//     file -> input -> parser -> MULTI ... EXEC gathered -> dispatcher -> keyspace
//
// The file is read in pieces. A command that the end of a piece cuts stays in `input` until the next piece
// completes it.
#include "append_only.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/command/command_table.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/resp/request_parser.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "no_server.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t commands_piece_bytes = 1 << 20;

std::string in_capitals(std::string_view word) {
  std::string text(word);
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

}  // namespace

class AppendOnly::Implementation {
 public:
  Implementation(keyspace::Keyspace& keyspace, WallTime now)
      : now_(now),
        adoptions_(keyspace, now),
        services_{.keyspace = keyspace,
                  .options = options_,
                  .clients = clients_,
                  .persistence = persistence_,
                  .control = control_,
                  .configuration = configuration_,
                  .workers = workers_,
                  .journal = journal_,
                  .adoptions = adoptions_,
                  .transfers = transfers_},
        dispatcher_(services_, 0) {
    services_.users->welcome(client_);
  }

  Result<void> run(storage::File& file, const std::string& name, std::uint64_t offset) {
    const auto size = file.size();
    if (!size) return size.error();
    resp::RequestParser parser(options_.parser);
    std::string input;
    while (offset < *size) {
      if (auto done = read_more(file, offset, input); !done) return done.error();
      const auto used = take_commands(parser, input);
      if (!used)
        return fail(Errc::damaged, name + ": there is no command where one should begin, before offset " +
                                       std::to_string(offset));
      input.erase(0, *used);
    }
    // The file ends within a command: Redis stopped while it wrote. Redis itself cuts such an end off when it
    // loads.
    counts_.cut_bytes += input.size();
    return {};
  }

  [[nodiscard]] ReplayCounts counts() const {
    ReplayCounts counts = counts_;
    if (transaction_) counts.cut_commands = transaction_->size();
    return counts;
  }

 private:
  static Result<void> read_more(storage::File& file, std::uint64_t& offset, std::string& input) {
    const std::size_t before = input.size();
    input.resize(before + commands_piece_bytes);
    const auto read = file.read_at(offset, std::as_writable_bytes(std::span(input)).subspan(before));
    if (!read) return read.error();
    // The size was asked for once. Without this test, run() would never end if the file is cut meanwhile.
    if (*read == 0) return fail(Errc::io, "the file became shorter while it was read");
    input.resize(before + *read);
    offset += *read;
    return {};
  }

  // Runs all whole commands at the start of `input`. Returns their bytes; nothing where these are no
  // commands.
  std::optional<std::size_t> take_commands(resp::RequestParser& parser, std::string_view input) {
    std::size_t used = 0;
    for (;;) {
      const std::string_view rest = input.substr(used);
      // A note, such as the time of the commands behind it. The parser does not know notes. One that is not
      // whole yet waits for the next piece.
      if (!rest.empty() && rest[0] == '#') {
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) return used;
        used += end + 1;
        continue;
      }
      // The parser takes lines of words as well, which Redis never writes.
      if (!rest.empty() && rest[0] != '*') return std::nullopt;
      const auto progress = parser.next(rest);
      if (progress == resp::Progress::malformed) return std::nullopt;
      used += parser.consumed();
      if (progress == resp::Progress::need_more) return used;
      take(parser.words());
    }
  }

  void take(const resp::Words& words) {
    const std::string name = in_capitals(words[0]);
    if (name == "MULTI") {
      // Redis may have stopped before EXEC. So nothing of a transaction runs before its EXEC is there.
      transaction_.emplace();
    } else if (name == "EXEC") {
      for (const auto& queued : std::exchange(transaction_, std::nullopt).value_or(Queue()))
        perform(resp::Words(queued.begin(), queued.end()));
    } else if (transaction_) {
      // Copied: the words are views of the input, which is gone when EXEC comes.
      transaction_->emplace_back(words.begin(), words.end());
    } else {
      perform(words);
    }
  }

  void perform(const resp::Words& words) {
    // SELECT is no write, and would be left out below.
    if (in_capitals(words[0]) == "SELECT" && words.size() == 2) return select(words[1]);
    const command::CommandSpec* const spec = command::row_for(words);
    // Commands that write nothing leave the keyspace as it is. Scripts need a stack that can be suspended,
    // which only sessions provide.
    const bool runs = spec != nullptr && spec->flags.has(command::Flag::write) &&
                      !spec->flags.has(command::Flag::runs_script);
    if (!runs) {
      ++counts_.left_out[in_capitals(words[0])];
    } else if (!database_there_) {
      ++counts_.databases_above;
    } else {
      run_command(*spec, words);
    }
  }

  void select(std::string_view text) {
    // A SELECT of a database that sepald lacks is an error for a client, which stays where it is. Here the
    // commands behind it would then change the wrong database. So they are left out and counted.
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    database_there_ =
        error == std::errc() && end == text.data() + text.size() && number < keyspace::database_count;
    if (database_there_) client_.database = number;
  }

  void run_command(const command::CommandSpec& spec, const resp::Words& words) {
    resp::Reply reply;
    std::unique_ptr<command::PartialRun> partial;
    const command::Request request{
        .client = client_, .reply = reply, .spec = &spec, .words = words, .partial = partial};
    // `alone`: no other thread knows this keyspace, so no command has to run again with the gate closed.
    const command::Moment moment{.now = now_, .steady_now = SteadyTime(), .alone = true};
    command::Next next{};
    // A long request runs in parts (decisions/0022). There is no other client that should run in between.
    do next = dispatcher_.run(request, moment).next;
    while (next == command::Next::more);
    // The command has left a filter to be made in the background. It is made now, because the next command
    // may need it.
    if (next == command::Next::wait) adoptions_.work_off(reply);
    ++counts_.commands;
    if (reply.error_count() == 0) return;
    if (counts_.errors++ == 0) counts_.first_error = in_capitals(words[0]) + ": " + text_of(reply);
  }

  static std::string text_of(resp::Reply& reply) {
    std::string text;
    reply.fill(std::numeric_limits<std::size_t>::max());
    reply.swap_out(text);
    // An error within a list is behind the list's head.
    const std::size_t error = text.find('-');
    return text.substr(error + 1, text.find('\r', error) - error - 1);
  }

  using Queue = std::vector<std::vector<std::string>>;

  WallTime now_;
  command::RuntimeOptions options_;
  NoClients clients_;
  NoPersistence persistence_;
  NoControl control_;
  NoConfiguration configuration_;
  NoJournal journal_;
  NoTransfers transfers_;
  AdoptionsBehind adoptions_;
  std::vector<command::WorkerStats> workers_{1};
  command::Services services_;
  command::Dispatcher dispatcher_;
  command::ClientState client_;
  bool database_there_ = true;
  std::optional<Queue> transaction_;
  ReplayCounts counts_;
};

AppendOnly::AppendOnly(keyspace::Keyspace& keyspace, WallTime now)
    : implementation_(std::make_unique<Implementation>(keyspace, now)) {}
AppendOnly::~AppendOnly() = default;

Result<void> AppendOnly::run(storage::File& file, const std::string& name, std::uint64_t offset) {
  return implementation_->run(file, name, offset);
}

ReplayCounts AppendOnly::counts() const {
  return implementation_->counts();
}

}  // namespace sepal::tools
