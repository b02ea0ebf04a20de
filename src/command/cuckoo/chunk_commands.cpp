// CF.SCANDUMP and CF.LOADCHUNK: a cuckoo filter leaves and comes in pieces.
//
// A header makes the filter, empty. A chunk of RedisBloom is written to its place there, as RedisBloom does;
// the items of a chunk of Sepal are added (cuckoo/native/pieces.hpp). So a filter whose chunks have not all
// come denies the items of the others.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/cuckoo/commands/chunks.hpp>
#include <sepal/cuckoo/commands/options.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <limits>
#include <memory>

#include "command/cuckoo/cuckoo_row.hpp"
#include "command/cuckoo/refuse_other.hpp"
#include "command/run/refuse.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

namespace cf_text = cuckoo::text;

Next cf_scandump(Context& context) {
  const auto iterator = parse_integer(context.words[2]);
  if (!iterator || *iterator < 0) return refuse(context, cf_text::position);
  value::Value* const found = find_counted(context, context.words[1]);
  if (found == nullptr) return refuse(context, cf_text::not_found);
  if (refuses_other_than_cuckoo(context, found)) return Next::done;
  cuckoo::append_piece(context.reply, cuckoo::scanned_piece(cuckoo::Found(found), *iterator));
  return Next::done;
}

// What a header has made.
Next answer_made(Context& context, const Result<void>& made) {
  if (made) return answer_ok(context);
  const Errc code = made.error().code;
  const bool absurd = code == Errc::out_of_range || code == Errc::layer_limit;
  return refuse(context, absurd ? cf_text::no_such_filter : text_of(code));
}

Next load_own_header(Context& context, std::span<const std::byte> bytes) {
  const auto plan = cuckoo::decode_header_piece(bytes);
  if (!plan) return refuse(context, cf_text::bad_header);
  if (!context.alone) return Next::need_alone;
  return answer_made(context, writers::create(context.changes,
                                              {.database = context.client.database, .key = context.words[1]},
                                              *plan, context.now));
}

Next load_header(Context& context, std::span<const std::byte> bytes) {
  if (value::Value* const found = find(context, context.words[1])) {
    if (!refuses_other_than_cuckoo(context, found)) context.reply.error(text_of(Errc::key_exists));
    return Next::done;
  }
  if (cuckoo::begins_header_piece(bytes)) return load_own_header(context, bytes);
  const auto header = cuckoo::decode_redis_header(bytes);
  if (!header)
    return refuse(context,
                  header.error().code == Errc::damaged ? cf_text::bad_header : cf_text::no_such_filter);
  if (!context.alone) return Next::need_alone;
  return answer_made(context, writers::create(context.changes,
                                              {.database = context.client.database, .key = context.words[1]},
                                              *header, context.now));
}

class LoadingPiece final : public PartialRun::Own {
 public:
  explicit LoadingPiece(const cuckoo::Filter& to) : load(to) {}
  [[nodiscard]] std::uint64_t byte_count() const override { return sizeof *this + load.byte_count(); }

  cuckoo::PieceLoad load;
};

// A part is a step of the load (cuckoo/native/pieces.hpp).
cuckoo::PieceOutcome load_part(Context& context, cuckoo::Filter& filter, std::span<const std::byte> bytes) {
  if (context.partial == nullptr) {
    auto piece = std::make_unique<LoadingPiece>(filter);
    const auto outcome = piece->load.read(bytes);
    if (outcome != cuckoo::PieceOutcome::more) return outcome;
    context.partial = std::make_unique<PartialRun>();
    context.partial->own = std::move(piece);
    return outcome;
  }
  cuckoo::PieceLoad& load = static_cast<LoadingPiece&>(*context.partial->own).load;
  const std::uint64_t before = load.added_count();
  const auto outcome = writers::load_some(
      context.changes, {.database = context.client.database, .key = context.words[1]}, filter, load);
  context.stats.other_changes.add(load.added_count() - before);
  context.partial->cursor = load.added_count();
  return outcome;
}

Next load_own_chunk(Context& context, cuckoo::Filter& filter, std::span<const std::byte> bytes) {
  const auto outcome = load_part(context, filter, bytes);
  if (outcome == cuckoo::PieceOutcome::more) return Next::more;
  if (outcome == cuckoo::PieceOutcome::losing_key) return Next::need_alone;
  const std::string_view refusal = cuckoo::refusal_of(outcome);
  return refusal.empty() ? answer_ok(context) : refuse(context, refusal);
}

Next load_chunk(Context& context, std::int64_t iterator, std::span<const std::byte> bytes) {
  value::Value* const found = find(context, context.words[1]);
  if (found == nullptr) return refuse(context, cf_text::not_found);
  if (refuses_other_than_cuckoo(context, found)) return Next::done;
  const cuckoo::Found known(found);
  // A filter of the other kind had the key when the first part ran.
  if (context.partial != nullptr && (context.partial->own != nullptr) != (known.own != nullptr))
    return refuse(context, cf_text::not_found);
  if (known.own != nullptr) return load_own_chunk(context, *known.own, bytes);
  auto* const filter = known.of_redis;
  if (!cuckoo::redis_place_of(filter->header(), iterator, bytes.size()))
    return refuse(context, cf_text::bad_chunk);
  if (!context.alone) return Next::need_alone;
  if (context.partial == nullptr && bytes.size() > cuckoo::slots_at_once_max)
    context.partial = std::make_unique<PartialRun>();
  const std::size_t before = context.partial == nullptr ? 0 : context.partial->cursor;
  const auto part =
      bytes.subspan(before, std::min<std::size_t>(bytes.size() - before, cuckoo::slots_at_once_max));
  const std::uint64_t offset = static_cast<std::uint64_t>(iterator) - 1 - bytes.size() + before;
  writers::write(context.changes, {.database = context.client.database, .key = context.words[1]}, *filter,
                 offset, part);
  if (context.partial == nullptr) return answer_ok(context);
  context.partial->cursor += part.size();
  return context.partial->cursor == bytes.size() ? answer_ok(context) : Next::more;
}

Next cf_loadchunk(Context& context) {
  const auto iterator = parse_integer(context.words[2]);
  if (!iterator || *iterator == 0) return refuse(context, cf_text::position);
  const auto bytes = std::as_bytes(std::span(context.words[3]));
  return *iterator == 1 ? load_header(context, bytes) : load_chunk(context, *iterator, bytes);
}

std::uint64_t records_chunk(const RecordAsk& ask) {
  const std::uint64_t bytes_max =
      ask.in_transaction ? std::numeric_limits<std::uint64_t>::max() : cuckoo::slots_at_once_max;
  const std::size_t key_bytes = std::min(ask.words[1].size(), keyspace::key_bytes_max);
  if (cuckoo::begins_cells_piece(std::as_bytes(std::span(ask.words[3]))))
    return writers::record_bytes_of_cuckoo(
        key_bytes, ask.in_transaction ? cuckoo::piece_copies_max : cuckoo::piece_step_max);
  return writers::record_bytes_of_redis_chunk(key_bytes,
                                              std::min<std::uint64_t>(ask.words[3].size(), bytes_max));
}

constexpr CommandSpec chunk_family[] = {
    cuckoo_row("cf.loadchunk", cf_loadchunk, records_chunk),
    // The reference declares that it changes the key.
    cuckoo_row("cf.scandump", cf_scandump, one_key("RW")),
};

}  // namespace

constinit const Rows chunk_rows = chunk_family;

}  // namespace sepal::command
