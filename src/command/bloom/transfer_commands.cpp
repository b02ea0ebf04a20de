// BF.SCANDUMP and BF.LOADCHUNK: clients read and write a filter in pieces, over any number of requests.
//
// The iterator is RedisBloom's. BF.SCANDUMP with 0 asks for the header, and the header comes with iterator 1.
// Any other iterator is 1 plus the offset in the bitmaps where the next piece begins. BF.LOADCHUNK gets each
// piece with the iterator that BF.SCANDUMP answered with it.

#include <sepal/base/arguments.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/dump.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/writers/uploads.hpp>

#include <utility>

#include "command/bloom/bloom_row.hpp"
#include "command/keys/lookup.hpp"
#include "command/run/adopting.hpp"
#include "command/run/refuse.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using writers::Uploads;

// A number that tells pieces dumped by this process from pieces of another process. The identity of a filter
// is unique within a process only.
std::uint64_t process_of(const Context& context) {
  return hash64(context.services.control.facts().run_id, 0);
}

void append_piece(resp::Reply& reply, std::uint64_t next, std::span<const std::byte> piece) {
  reply.array(2);
  reply.integer(static_cast<std::int64_t>(next));
  reply.bulk({reinterpret_cast<const char*>(piece.data()), piece.size()});
}

std::string_view text_of_outcome(Uploads::Outcome outcome) {
  switch (outcome) {
    case Uploads::Outcome::not_found:
    case Uploads::Outcome::known_already: return text::filter_not_found;
    case Uploads::Outcome::not_adopted: return text::load_not_adopted;
    case Uploads::Outcome::no_such_offset: return text::load_no_such_offset;
    case Uploads::Outcome::too_big: return text::load_too_big;
    default: return text::load_bad_data;
  }
}

std::string refused_upload(const Error& error) {
  if (error.code == Errc::layer_limit) return reason_text(error);
  if (error.code == Errc::damaged || error.code == Errc::unsupported_version)
    return std::string(text::load_bad_data);
  return std::string(error.code == Errc::in_use ? text::too_many_uploads : text_of(error.code));
}

// With the gate closed.
Result<void> begin_upload(Context& context, keyspace::DatabaseKey key, std::span<const std::byte> header) {
  const RuntimeOptions& options = context.services.options;
  return context.services.uploads->begin(
      key, header, {.count_max = options.uploads_max, .timeout = options.upload_timeout}, context.now);
}

Next adopt_upload(Context& context, keyspace::DatabaseKey key) {
  Uploads& uploads = *context.services.uploads;
  // From here on, pieces of this upload are refused until the filter has its key. A client that repeats its
  // last piece must not hear OK while the adoption may still fail.
  bloom::FilterPtr filter = uploads.take(key, context.now);
  // The views of `key` end with the request, and `note` may run later. The address is only compared.
  const auto note = [&uploads, database = key.database, name = std::string(key.key),
                     taken = static_cast<const value::Value*>(filter.get())] {
    uploads.adopted({.database = database, .key = name}, *taken);
  };
  return adopt(context, std::move(filter),
               {.what = "upload",
                .database = key.database,
                .key = std::string(key.key),
                .replace = true,
                .make = {},
                .still_wanted = contents_stay(context, key.database),
                .adopted = note,
                .answer = answer_adoption});
}

Next load_header(Context& context, keyspace::DatabaseKey key, std::span<const std::byte> header) {
  // With the gate closed: an upload that the key may have is replaced, and no worker is inside it.
  if (!context.alone) return Next::need_alone;
  // The client hears of it at the header, and not after it has sent the whole filter. The adoption asks
  // again.
  if (context.services.keyspace.is_target(key, context.now)) return refuse(context, text::target_of_mirror);
  if (const Result<void> begun = begin_upload(context, key, header)) {
    context.reply.ok();
  } else {
    context.reply.error(refused_upload(begun.error()));
  }
  return Next::done;
}

// Most pieces run in the shared gate. The one that makes the filter whole, and the first one of another dump,
// run again with the gate closed. The piece is then loaded a second time: bits that are there already stay as
// they are.
Next load_data(Context& context, keyspace::DatabaseKey key, const writers::UploadPiece& piece) {
  Uploads& uploads = *context.services.uploads;
  Uploads::Outcome outcome = uploads.load(key, piece, context.now);
  const bool ends = outcome == Uploads::Outcome::whole || outcome == Uploads::Outcome::begins_anew;
  if (ends && !context.alone) return Next::need_alone;
  if (outcome == Uploads::Outcome::begins_anew) {
    if (const Result<void> begun = begin_upload(context, key, piece.bytes); !begun)
      return refuse(context, refused_upload(begun.error()));
    outcome = uploads.load(key, piece, context.now);
  }
  if (outcome == Uploads::Outcome::whole) return adopt_upload(context, key);
  // A client that lost its connection before the answer may repeat a piece: that is +OK if its filter is
  // there.
  const bool loaded_before = outcome == Uploads::Outcome::known_already && find(context, key.key) != nullptr;
  if (outcome == Uploads::Outcome::taken || loaded_before) {
    context.reply.ok();
  } else {
    context.reply.error(text_of_outcome(outcome));
  }
  return Next::done;
}

// Its lanes change their meaning with the clock, so pieces of different instants make no filter.
bool refuses_window(Context& context, const value::Value* found) {
  if (found == nullptr || found->kind() != value::Kind::window) return false;
  context.reply.error(bloom::text::window_has_no_chunks);
  return true;
}

Next bf_scan_dump(Context& context) {
  const auto iterator = parse_integer(context.words[2]);
  // All counts in a header must be of one moment, so no worker may add meanwhile.
  if (iterator == 0 && !context.alone) return Next::need_alone;
  value::Value* const found = find_counted(context, context.words[1]);
  if (refuses_window(context, found)) return Next::done;
  const auto [filter, refused] = found_or_refused<bloom::Filter>(context, found);
  if (refused) return Next::done;
  if (filter == nullptr || !iterator)
    return refuse(context, filter == nullptr ? text::filter_not_found : text::dump_position);
  if (*iterator == 0) {
    append_piece(context.reply, 1, bloom::dump_header(*filter, process_of(context)));
    return Next::done;
  }
  std::optional<bloom::DumpedData> data;
  if (*iterator > 0)
    data = bloom::dump_data(*filter, static_cast<std::uint64_t>(*iterator) - 1, process_of(context));
  if (data) {
    append_piece(context.reply, 1 + data->end, data->piece);
  } else {
    // The end of the dump, and also the answer to an iterator that is behind it, as in RedisBloom.
    append_piece(context.reply, 0, {});
  }
  return Next::done;
}

Next bf_load_chunk(Context& context) {
  const auto iterator = parse_integer(context.words[2]);
  if (!iterator) return refuse(context, text::load_position);
  const value::Value* const found = find(context, context.words[1]);
  if (refuses_window(context, found) || refuses_other(context, found, value::Kind::bloom)) return Next::done;
  const keyspace::DatabaseKey key{.database = context.client.database, .key = context.words[1]};
  const auto bytes = std::as_bytes(std::span(context.words[3]));
  if (*iterator == 1) return load_header(context, key, bytes);
  return load_data(context, key, {.iterator = *iterator, .bytes = bytes});
}

constexpr CommandSpec transfer_family[] = {
    bloom_row("bf.loadchunk", bf_load_chunk, Flag::outside_multi, records_adoption),
    // The reference declares that it changes the key.
    bloom_row("bf.scandump", bf_scan_dump, one_key("RW")),
};

}  // namespace

constinit const Rows transfer_rows = transfer_family;

}  // namespace sepal::command
