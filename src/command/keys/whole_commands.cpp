// Handlers of commands that copy, dump, restore, import or export a whole filter. A small filter is handled
// at once, with the gate closed, so that its layers and counts are of one moment. A job outside the workers
// handles large filters and all files (adoptions.hpp).
//
// The handlers of large filters have one pattern. They check what they can, and close the gate only to take a
// Frozen, which holds the filter and notes its counts. Everything that the job uses is copied or held: the
// request's words and the handler's context are gone when it runs. The key may have changed by then, so
// may_adopt() looks again before the filter gets its place. EXEC and scripts cannot wait for a job, so there
// the request is refused.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/adoptions.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/value/image.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "command/keys/database_number.hpp"
#include "command/keys/dump_payload.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/mirror_state.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using keyspace::DatabaseKey;
using value::Frozen;
using value::ValuePtr;
using Words = std::span<const std::string_view>;

bool is_small(std::uint64_t image_bytes) {
  return image_bytes <= keyspace::recorded_image_bytes_max;
}

// --- COPY -------------------------------------------------------------------------------------------------

struct CopyOptions {
  std::uint32_t database = 0;
  bool replace = false;
};

// The error text; empty if there is none.
std::string_view parse(Words words, CopyOptions& options) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (equal_ignoring_case(words[at], "REPLACE")) {
      options.replace = true;
    } else if (equal_ignoring_case(words[at], "DB") && at + 1 < words.size()) {
      if (const auto wrong = parse_database(words[++at], options.database); !wrong.empty()) return wrong;
    } else {
      return text::syntax;
    }
  }
  return {};
}

// Why the source may not take the place of the target; empty if it may. A COPY with REPLACE may do what
// BF.MIRROR COMMIT does. While that mirror is broken, the source of the COPY lacks items of the filter that
// it would replace.
std::string copy_refusal(const Context& context, const DatabaseKey& source, const DatabaseKey& target) {
  const keyspace::Keyspace& keyspace = context.services.keyspace;
  const value::Value* const replaced = keyspace.find(target, context.now);
  if (replaced == nullptr || source.database != target.database) return {};
  const auto* const link = broken_between(keyspace.mirrors(), source.key, *replaced);
  return link == nullptr ? std::string() : broken_mirror(link->mirror.state);
}

void answer_copy(resp::Reply& reply, const Result<void>& outcome) {
  // Also for a job: another client took the key first (key_exists), or a flush removed the source
  // (no_such_key). As in Redis, these are no errors of COPY.
  if (outcome || outcome.error().code == Errc::key_exists || outcome.error().code == Errc::no_such_key) {
    reply.integer(outcome ? 1 : 0);
  } else {
    reply.error(reason_text(outcome.error()));
  }
}

// --- DUMP -------------------------------------------------------------------------------------------------

Next dump_value(Context& context, ValuePtr value, const value::Payload& payload) {
  // Shared with the job, which must be a copyable function. This is the instant of the dump.
  const auto frozen = std::make_shared<const Frozen>(std::move(value));
  const std::uint64_t byte_count = payload.byte_count(frozen->view());
  // RESTORE could not take a longer payload as one word. A string came as a word itself, or could have.
  const bool is_string = frozen->value()->kind() == value::Kind::string;
  if (!is_string && byte_count > context.services.options.parser.bulk_bytes_max)
    return refuse(context, text::dump_too_large);
  if (is_small(byte_count)) {
    const auto pieces = payload.write(frozen->view(), {});
    std::string whole;
    for (const std::string& piece : *pieces) whole += piece;
    context.reply.bulk(whole);
    return Next::done;
  }
  if (context.mode.in_transaction)
    return refuse(context, is_string ? text::long_string_in_transaction : text::whole_in_transaction);
  const auto run = [frozen, &payload](const JobContext& job) -> Answer {
    auto room = job.hold(payload.memory_bytes(frozen->view()));
    auto written =
        room ? payload.write(frozen->view(), job.go_on) : Result<std::vector<std::string>>(room.error());
    if (!written) return [error = written.error()](resp::Reply& reply) { reply.error(reason_text(error)); };
    return [held = std::make_shared<std::vector<std::string>>(std::move(*written))](resp::Reply& reply) {
      reply.bulk_later(std::move(*held));
    };
  };
  context.services.adoptions.run(context.client, {.what = "dump", .run = run});
  return Next::wait;
}

// --- RESTORE ----------------------------------------------------------------------------------------------

struct RestoreOptions {
  bool replace = false;
  bool absolute = false;
};

// IDLETIME and FREQ are for eviction, which Sepal does not have: they are checked and ignored.
std::string_view parse_access(Words words, std::size_t& at, bool& idle_time, bool& frequency) {
  constexpr std::int64_t frequency_max = 255;
  if (at + 1 == words.size()) return text::syntax;
  const bool idle = equal_ignoring_case(words[at], "IDLETIME") && !frequency;
  if (!idle && (!equal_ignoring_case(words[at], "FREQ") || idle_time)) return text::syntax;
  (idle ? idle_time : frequency) = true;
  const auto number = parse_integer(words[++at]);
  if (!number) return text::not_an_integer;
  if (idle) return *number < 0 ? text::restore_idle_time_range : std::string_view();
  return *number < 0 || *number > frequency_max ? text::restore_frequency_range : std::string_view();
}

std::string_view parse(Words words, RestoreOptions& options) {
  bool idle_time = false;
  bool frequency = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (equal_ignoring_case(words[at], "REPLACE")) {
      options.replace = true;
    } else if (equal_ignoring_case(words[at], "ABSTTL")) {
      options.absolute = true;
    } else if (const auto wrong = parse_access(words, at, idle_time, frequency); !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

// Nothing if the time to live ends after the latest possible deadline.
std::optional<keyspace::Deadline> deadline_of(std::int64_t time, const RestoreOptions& options,
                                              WallTime now) {
  if (time == 0 || options.absolute) return time;
  const keyspace::Deadline since = keyspace::deadline_at(now);
  if (time > std::numeric_limits<keyspace::Deadline>::max() - since) return std::nullopt;
  return since + time;
}

void answer_restore(resp::Reply& reply, const Result<void>& outcome) {
  if (outcome) return reply.ok();
  switch (outcome.error().code) {
    case Errc::key_exists: return reply.error(text::busy_key);
    case Errc::damaged: return reply.error(text::restore_bad_payload);
    case Errc::out_of_range: return reply.error(text::restore_bad_format);
    default: return reply.error(reason_text(outcome.error()));
  }
}

Next restore_payload(Context& context, std::string_view payload, Adoption adoption) {
  // The bound is what the filter may take, and not how long the payload is: a packed dump of few bytes can
  // unpack to a large filter, and that takes long.
  if (is_small(restored_bytes_max(payload, context.services.keyspace.value_limits().layers_max))) {
    auto made = value_of_payload(payload, context.services.keyspace.value_limits(), {});
    if (made) return adopt(context, std::move(*made), std::move(adoption));
    adoption.answer(context.reply, made.error());
    return Next::done;
  }
  if (context.mode.in_transaction) return refuse(context, text::whole_in_transaction);
  // Refusals come first: what is refused need not be copied.
  if (!copied_whole(context, payload)) return Next::more;
  context.client.bytes_of_job = context.partial->bytes.capacity();
  adoption.make = [held = std::make_shared<std::string>(std::move(context.partial->bytes))](
                      const JobContext& job) -> Result<ValuePtr> {
    return value_of_payload(*held, job.limits, job.hold);
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

// --- BF.IMPORT, BF.EXPORT ---------------------------------------------------------------------------------

// key file [REPLACE]
struct TransferRequest {
  std::string file;
  bool replace = false;
};

// The error text; empty if there is none.
std::string_view parse(const Context& context, TransferRequest& request) {
  constexpr std::size_t words_min = 3;
  const Words options = context.words.subspan(words_min);
  if (options.size() > 1 || (options.size() == 1 && !equal_ignoring_case(options[0], "REPLACE")))
    return text::syntax;
  if (!context.services.transfers.enabled()) return text::no_import_dir;
  if (const auto wrong = wrong_with_name(context.words[2]); !wrong.empty()) return wrong;
  request = {.file = std::string(context.words[2]), .replace = options.size() == 1};
  return {};
}

Next copy(Context& context) {
  CopyOptions options{.database = context.client.database};
  if (const auto wrong = parse(context.words.subspan(3), options); !wrong.empty())
    return refuse(context, wrong);
  const DatabaseKey source{.database = context.client.database, .key = context.words[1]};
  const DatabaseKey target{.database = options.database, .key = context.words[2]};
  if (source.database == target.database && source.key == target.key)
    return refuse(context, text::same_objects);
  // A missing source and a taken target are answered without closing the gate.
  value::Value* const value = find(context, source.key);
  const bool taken = !options.replace && context.services.keyspace.find(target, context.now) != nullptr;
  if (value == nullptr || taken) return answer_number(context, 0);
  if (!context.alone) return Next::need_alone;
  if (const auto refusal = copy_refusal(context, source, target); !refusal.empty())
    return refuse(context, refusal);
  if (context.services.keyspace.is_target(target, context.now))
    return refuse(context, text::target_of_mirror);
  Adoption adoption{.what = "copy",
                    .database = target.database,
                    .key = std::string(target.key),
                    .deadline = context.services.keyspace.deadline(source),
                    .replace = options.replace,
                    .make = {},
                    .answer = answer_copy};
  // This is the instant of the copy, so the gate is closed.
  const auto frozen = std::make_shared<const Frozen>(ValuePtr(value));
  if (is_small(frozen->image_bytes())) {
    auto made = frozen->copy(context.services.keyspace.value_limits(), {});
    if (made) return adopt(context, std::move(*made), std::move(adoption));
    answer_copy(context.reply, made.error());
    return Next::done;
  }
  if (context.mode.in_transaction) return refuse(context, text::whole_in_transaction);
  adoption.make = [frozen](const JobContext& job) -> Result<ValuePtr> {
    const value::Value& copied = *frozen->value();
    if (auto room = job.hold(value::row_of(copied).byte_count(copied)); !room) return room.error();
    return frozen->copy(job.limits, job.go_on);
  };
  adoption.still_wanted = [source_stays = contents_stay(context, source.database),
                           target_stays = contents_stay(context, target.database)] {
    return source_stays() && target_stays();
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

Next dump(Context& context) {
  value::Value* const value = find(context, context.words[1]);
  // A missing key needs no closed gate. One that is there is counted by the second run.
  if (!context.alone && value != nullptr) return Next::need_alone;
  count_key(context, value != nullptr);
  if (value == nullptr) {
    context.reply.null();
    return Next::done;
  }
  return dump_value(context, ValuePtr(value), payload_of(*value));
}

Next restore(Context& context) {
  RestoreOptions options;
  if (const auto wrong = parse(context.words.subspan(4), options); !wrong.empty())
    return refuse(context, wrong);
  const DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  // As in Redis, a taken key is told before a wrong time to live.
  const bool taken = find(context, key.key) != nullptr;
  if (taken && !options.replace) return refuse(context, text::busy_key);
  const auto time = parse_integer(context.words[2]);
  if (!time) return refuse(context, text::not_an_integer);
  if (*time < 0) return refuse(context, text::restore_time_range);
  const auto deadline = deadline_of(*time, options, context.now);
  if (!deadline) return refuse(context, bad_expire_time("restore"));
  if (context.services.keyspace.is_target(key, context.now)) return refuse(context, text::target_of_mirror);
  Adoption adoption{.what = "restore",
                    .database = key.database,
                    .key = std::string(key.key),
                    .deadline = *deadline,
                    .replace = options.replace,
                    .make = {},
                    .answer = answer_restore};
  return restore_payload(context, context.words[3], std::move(adoption));
}

Next bf_import(Context& context) {
  TransferRequest request;
  if (const auto wrong = parse(context, request); !wrong.empty()) return refuse(context, wrong);
  if (!request.replace && find(context, context.words[1]) != nullptr)
    return refuse(context, text::filter_exists);
  const DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  if (context.services.keyspace.is_target(key, context.now)) return refuse(context, text::target_of_mirror);
  Adoption adoption{.what = "import",
                    .database = context.client.database,
                    .key = std::string(context.words[1]),
                    .replace = request.replace,
                    .make = {},
                    .answer = answer_adoption};
  // Nothing of the keyspace is read, so the gate stays open. The job reads the file, and may_adopt() looks at
  // the key again.
  adoption.make = [&transfers = context.services.transfers, file = request.file](const JobContext& job) {
    return transfers.read(file, value::Kind::bloom, job);
  };
  context.services.adoptions.adopt(context.client, std::move(adoption));
  return Next::wait;
}

Next bf_export(Context& context) {
  TransferRequest request;
  if (const auto wrong = parse(context, request); !wrong.empty()) return refuse(context, wrong);
  const auto [filter, refused] = find_or_refuse<bloom::Filter>(context, context.words[1]);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, text::filter_not_found);
  if (!context.alone) return Next::need_alone;
  // The Frozen is taken with the gate closed. The file is written by a job, which waits for the disk.
  const OutgoingFile file{.name = request.file,
                          .key = std::string(context.words[1]),
                          .value = std::make_shared<const Frozen>(ValuePtr(filter)),
                          .replace = request.replace};
  const auto run = [&transfers = context.services.transfers, file](const JobContext& job) -> Answer {
    return [outcome = transfers.write(file, job)](resp::Reply& reply) { answer_adoption(reply, outcome); };
  };
  context.services.adoptions.run(context.client, {.what = "export", .run = run});
  return Next::wait;
}

constexpr Family whole_row{.group = "generic", .categories = Category::keyspace};
constexpr Family file_row{.group = "module",
                          .categories = Category::bloom | Category::slow,
                          .flags = Flag::module | Flag::no_script | Flag::administers | Flag::outside_multi,
                          .flags_imply_categories = false};

constexpr CommandSpec whole_family[] = {
    file_row("bf.export key file [REPLACE]", -3, "0.1.0",
             "Writes a filter into a file of import_dir; Sepal's own", bf_export, Flag::read_only,
             Category::read, one_key("RO"), Cost{"O(N) where N is the size of the filter"}),
    file_row("bf.import key file [REPLACE]", -3, "0.1.0",
             "Puts the filter in a file of import_dir under a key, in one instant; Sepal's own", bf_import,
             Flag::write | Flag::deny_oom, records_adoption, Category::write, one_key("RW"),
             Cost{"O(N) where N is the size of the file"}),
    whole_row("copy source destination [DB destination-db] [REPLACE]", -3, "6.2.0",
              "Copies a filter or a string, and its deadline, to another key", copy,
              Flag::write | Flag::deny_oom, records_adoption, two_keys("RO access/OW update"),
              Cost{"O(N) where N is the size of the filter"}),
    whole_row("dump key", 2, "2.6.0", "Answers a filter or a string as bytes that RESTORE takes", dump,
              Flag::read_only, one_key("RO access"), Cost{"O(N) where N is the size of the filter"},
              any_output),
    whole_row("restore key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]", -4,
              "2.6.0", "Puts a filter or a string that DUMP, here or in Redis, answered under a key", restore,
              Flag::write | Flag::deny_oom, records_adoption, Category::dangerous, one_key("OW update"),
              Cost{"O(N) where N is the size of the payload"}),
};

}  // namespace

// A client chooses the name, and it must not lead out of the folder. Each rule has a text of its own, because
// the error names the rule.
std::string_view wrong_with_name(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (name.empty()) return text::file_name_empty;
  if (name.size() > plain_name_bytes_max) return text::file_name_long;
  if (name.find('/') != std::string_view::npos) return text::file_name_slash;
  if (name[0] == '.') return text::file_name_dot;
  if (std::any_of(name.begin(), name.end(), is_control)) return text::file_name_control;
  return {};
}

constinit const Rows whole_rows = whole_family;

}  // namespace sepal::command
