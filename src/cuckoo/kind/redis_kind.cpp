// The head of an image:
//
//     "SPRC" | version 2 | zeros 2 | the header of RedisBloom's dump 38 | zeros 2
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/foreign/redis_payload.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/cuckoo/kind/redis_kind.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace sepal::cuckoo {
namespace redis_kind {
namespace {

using value::Figures;
using value::FrozenView;
using value::Shape;
using value::Value;
using value::ValuePtr;
using Bytes = std::span<const std::byte>;

constexpr std::string_view magic = "SPRC";
constexpr std::uint16_t version = 1;
constexpr std::size_t header_at = 8;
constexpr std::size_t head_bytes = redis_image_head_bytes;

RedisFilter& in(Value& value) {
  return value::as<RedisFilter>(value);
}
const RedisFilter& in(const Value& value) {
  return value::as<RedisFilter>(value);
}
RedisStill& still_of(const FrozenView& frozen) {
  // A Still is of one reader alone.
  return const_cast<RedisStill&>(static_cast<const RedisStill&>(*frozen.still));
}

Result<ValuePtr> value_of(Result<RedisTable> table) {
  auto filter = RedisFilter::of(std::move(table));
  if (!filter) return filter.error();
  return ValuePtr(std::move(*filter));
}

// Errors of a header that comes from a file are damage.
Result<RedisHeader> read_header(Bytes bytes) {
  auto header = decode_redis_header(bytes);
  if (!header) return damaged("a cuckoo filter of RedisBloom has a shape that no such filter has");
  return header;
}

// --- the image --------------------------------------------------------------------------------------------

bool begins_image(Bytes bytes) {
  return begins_with(bytes, magic);
}

Result<RedisHeader> read(Bytes bytes) {
  if (bytes.size() < head_bytes || !begins_image(bytes))
    return damaged("the head of a cuckoo filter of RedisBloom is cut short");
  FieldReader reader(bytes.subspan(magic.size()));
  if (const auto its = reader.integer<std::uint16_t>(); its != version)
    return fail(Errc::unsupported_version,
                "a cuckoo filter of RedisBloom is of version " + std::to_string(its));
  const auto end = bytes.subspan(header_at + redis_header_bytes, sizeof(std::uint16_t));
  if (reader.integer<std::uint16_t>() != 0 || load_little_endian<std::uint16_t>(end.data()) != 0)
    return damaged("the head of a cuckoo filter of RedisBloom has bits that no head has");
  return read_header(bytes.subspan(header_at, redis_header_bytes));
}

Result<Shape> read_head(Bytes bytes, std::uint32_t layers_max) {
  const auto header = read(bytes);
  if (!header) return header.error();
  if (header->layer_count > layers_max)
    return fail(Errc::layer_limit,
                "the cuckoo filter has more than " + std::to_string(layers_max) + " layers");
  return redis_image_shape(*header);
}

Result<ValuePtr> make(Bytes bytes, const value::Limits& limits, value::FilledBy /*by*/) {
  const auto header = read(bytes);
  if (!header) return header.error();
  return value_of(RedisTable::make(*header, limits));
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  std::ranges::copy(redis_image_head(still_of(frozen).header()), into.begin());
}

// --- its records ------------------------------------------------------------------------------------------

Result<ValuePtr> make_recorded(Bytes head, const value::Limits& limits) {
  const auto header = read_header(head);
  if (!header) return header.error();
  return value_of(RedisTable::make(*header, limits));
}

Error no_such_change() {
  return damaged("a cuckoo filter of RedisBloom changes in a way that no such filter does");
}

// Calls change(hash) for each hash of a record.
template <class Change>
Result<void> each_hash(Bytes bytes, const Change& change) {
  constexpr std::size_t hash_bytes = sizeof(std::uint64_t);
  if (bytes.empty() || bytes.size() % hash_bytes != 0) return no_such_change();
  for (; !bytes.empty(); bytes = bytes.subspan(hash_bytes))
    if (auto changed = change(load_little_endian<std::uint64_t>(bytes.data())); !changed) return changed;
  return {};
}

Result<void> add(RedisTable& table, std::uint64_t hash, const value::Limits& limits) {
  switch (table.add(hash, limits)) {
    case RedisTable::Added::added: return {};
    case RedisTable::Added::too_large: return fail(Errc::too_large);
    case RedisTable::Added::out_of_memory: return fail(Errc::out_of_memory);
    case RedisTable::Added::exists:
    case RedisTable::Added::full:
    case RedisTable::Added::layer_limit: break;
  }
  return fail(Errc::out_of_range, "an item is added to a cuckoo filter of RedisBloom that is full");
}

Result<void> write(RedisTable& table, Bytes bytes) {
  if (bytes.size() <= redis_written_head_bytes) return no_such_change();
  const auto offset = load_little_endian<std::uint64_t>(bytes.data());
  bytes = bytes.subspan(redis_written_head_bytes);
  const std::uint64_t slots = table.header().slot_count();
  if (offset > slots || bytes.size() > slots - offset)
    return fail(Errc::out_of_range, "bytes are written behind the slots of a cuckoo filter of RedisBloom");
  table.write_at(offset, bytes);
  return {};
}

Result<void> change(RedisTable& table, std::uint8_t what, Bytes bytes, const value::Limits& limits) {
  // The limit of layers that held then has admitted the change, so a replay needs none.
  const value::Limits any_layers{.bytes_max = limits.bytes_max, .layers_max = redis_layers_max};
  switch (static_cast<RedisChange>(what)) {
    case RedisChange::added:
      return each_hash(bytes, [&](std::uint64_t hash) { return add(table, hash, any_layers); });
    case RedisChange::removed:
      return each_hash(bytes, [&](std::uint64_t hash) -> Result<void> {
        if (table.remove(hash)) return {};
        return fail(Errc::out_of_range, "an item leaves a cuckoo filter of RedisBloom that does not have it");
      });
    case RedisChange::compacted:
      if (!bytes.empty()) break;
      table.compact();
      return {};
    case RedisChange::written: return write(table, bytes);
  }
  return no_such_change();
}

Result<ValuePtr> apply(Value& value, std::uint8_t what, Bytes bytes, const value::Limits& limits) {
  if (auto changed = change(in(value).changing(), what, bytes, limits); !changed) return changed.error();
  return ValuePtr();
}

// --- what is told -----------------------------------------------------------------------------------------

void tell_header(const RedisHeader& header, Figures& to) {
  to.number("items", header.item_count);
  to.number("items_removed", header.delete_count);
  to.number("bucket_size", header.bucket_slots);
  to.number("iterations", header.kicks_max);
  to.number("expansion", header.expansion);
}

void tell(const Value& value, Figures& to) {
  const RedisHeader& header = in(value).header();
  tell_header(header, to);
  to.part = "layer";
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer) {
    Figures figures;
    figures.number("buckets", header.layer_buckets(layer));
    figures.number("slots", header.layer_slots(layer));
    to.parts.push_back(std::move(figures.figures));
  }
}

std::string sentence(const Value& value) {
  const RedisHeader& header = in(value).header();
  return "a cuckoo filter of RedisBloom, with " + std::to_string(header.item_count) + " items in " +
         std::to_string(header.layer_count) + " layers";
}

void tell_head(Bytes bytes, Figures& to) {
  if (const auto header = read(bytes)) tell_header(*header, to);
}

std::string_view tell_made(Bytes head, Figures& to) {
  if (const auto header = read_header(head)) tell_header(*header, to);
  return "created";
}

std::string_view tell_changed(std::uint8_t what, Bytes bytes, Figures& to) {
  switch (static_cast<RedisChange>(what)) {
    case RedisChange::added: to.number("items", bytes.size() / sizeof(std::uint64_t)); return "added";
    case RedisChange::removed: to.number("items", bytes.size() / sizeof(std::uint64_t)); return "removed";
    case RedisChange::compacted: return "compacted";
    case RedisChange::written: break;
  }
  if (bytes.size() > redis_written_head_bytes) {
    to.number("offset", load_little_endian<std::uint64_t>(bytes.data()));
    to.number("bytes", bytes.size() - redis_written_head_bytes);
  }
  return "written";
}

// --- the payload: RedisBloom's, and that of sepal.so ------------------------------------------------------

bool is_of_module(Bytes payload) {
  return value::begins_module_payload(redis_row, payload);
}

// In any encoding, so that RESTORE says what is wrong with it. But sepal.so gives both kinds the same name.
bool begins_payload(Bytes payload) {
  return begins_redis_payload(payload) && !value::begins_module_payload(cuckoo_row, payload);
}

std::uint64_t payload_bytes_max(Bytes payload, std::uint32_t layers_max) {
  return is_of_module(payload) ? value::module_payload_bytes_max(redis_row, payload, layers_max)
                               : redis_payload_bytes_max(payload);
}

Result<ValuePtr> read_payload(Bytes payload, const value::Limits& limits, const value::Hold& hold) {
  if (is_of_module(payload)) return value::read_module_payload(redis_row, payload, limits, hold);
  const auto fields = decode_redis_payload(payload);
  if (!fields) return fields.error();
  if (hold)
    if (auto room = hold(RedisTable::memory_bytes(fields->header)); !room) return room.error();
  rdb::BytesInMemory bytes(payload);
  return value_of(table_of(*fields, bytes, limits));
}

std::uint64_t payload_bytes(const FrozenView& frozen) {
  return redis_payload_bytes(still_of(frozen).header());
}

Result<std::vector<std::string>> write_payload(const FrozenView& frozen, const value::GoOn& go_on) {
  RedisStill& still = still_of(frozen);
  // The slots are asked for one behind the other.
  std::uint64_t at = 0;
  const auto read = [&](std::uint32_t /*layer*/, std::uint64_t /*offset*/, std::span<std::byte> to) {
    still.copy(at, to);
    at += to.size();
  };
  return redis_payload_of(still.header(), read, go_on);
}

constexpr value::Payload payload{.begins = begins_payload,
                                 .bytes_max = payload_bytes_max,
                                 .read = read_payload,
                                 .byte_count = payload_bytes,
                                 .memory_bytes = payload_bytes,
                                 .write = write_payload,
                                 .type = &module_type};

constexpr value::KindRow row{
    .kind = value::Kind::redis_cuckoo,
    .type_name = redis_type_name,
    .word = "RedisBloom cuckoo filter",
    .destroy = [](Value* value) { delete static_cast<RedisFilter*>(value); },
    .byte_count = [](const Value& value) { return in(value).byte_count(); },
    .item_count = [](const Value& value) { return in(value).item_count(); },
    .changes = [](const Value& value) { return in(value).change_count(); },
    .identity = [](const Value& value) { return in(value).identity(); },
    .prepare = nullptr,
    .encoding = nullptr,
    .make_state = nullptr,
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body = [](Value& value, std::uint64_t offset,
                    Bytes from) { in(value).filling().write_at(offset, from); },
    .complete = nullptr,
    .freeze = [](const Value& value, std::vector<std::uint64_t>& /*numbers*/)
        -> std::unique_ptr<value::Still> { return in(value).freeze(); },
    .head_bytes = [](const FrozenView&) { return head_bytes; },
    .body_bytes = [](const FrozenView& frozen) { return still_of(frozen).byte_count(); },
    .encode_head = encode_head,
    .copy_body = [](const FrozenView& frozen, std::uint64_t offset,
                    std::span<std::byte> to) { still_of(frozen).copy(offset, to); },
    .repeat = value::Repeat::once,
    .made_by_change = false,
    .make_recorded = make_recorded,
    .apply = apply,
    .add = nullptr,
    .add_refused = {},
    .tell = tell,
    .sentence = sentence,
    .tell_head = tell_head,
    .tell_made = tell_made,
    .tell_changed = tell_changed,
    .payload = &payload,
    .mirrors = false,
};

}  // namespace
}  // namespace redis_kind

value::Shape redis_image_shape(const RedisHeader& header) {
  constexpr std::uint64_t word_bytes = 8;
  return {.head_bytes = redis_image_head_bytes,
          .body_bytes = (header.slot_count() + word_bytes - 1) / word_bytes * word_bytes,
          .item_count = std::min(header.item_count, header.slot_count())};
}

std::array<std::byte, redis_image_head_bytes> redis_image_head(const RedisHeader& header) {
  std::array<std::byte, redis_image_head_bytes> head{};
  FieldWriter writer(head);
  writer.bytes(std::as_bytes(std::span(redis_kind::magic)));
  writer.integer(redis_kind::version);
  writer.integer(std::uint16_t{0});
  writer.bytes(encode_redis_header(header));
  return head;
}

std::array<std::byte, redis_written_head_bytes> redis_written_head(std::uint64_t offset) {
  std::array<std::byte, redis_written_head_bytes> head;
  store_little_endian(head.data(), offset);
  return head;
}

constinit const value::KindRow redis_row = redis_kind::row;

}  // namespace sepal::cuckoo
