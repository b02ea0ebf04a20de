// The head of an image:
//
//     "SPCF" | version (2 bytes) | zeros 2 | items 8 | body bytes 8 | plan 56 | removals forgotten 8
//
// A cell is copied later than the instant of the freeze, and then has changes of after it. So records are
// applied again: each of a cell has a number, and the cell leaves out those that it has.
#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/value/module_payload.hpp>

#include <string>
#include <utility>

#include "cuckoo/native/frozen_cells.hpp"

namespace sepal::cuckoo {
namespace {

using value::Figures;
using value::FrozenView;
using value::Shape;
using value::Value;
using value::ValuePtr;
using Bytes = std::span<const std::byte>;

constexpr std::string_view magic = "SPCF";
constexpr std::uint16_t version = 1;
constexpr std::size_t head_fields_bytes = 24;
constexpr std::size_t forgotten_at = head_fields_bytes + plan_bytes;
constexpr std::size_t head_bytes = forgotten_at + sizeof(std::uint64_t);

Filter& in(Value& value) {
  return value::as<Filter>(value);
}
const Filter& in(const Value& value) {
  return value::as<Filter>(value);
}
FrozenCells& cells_of(const FrozenView& frozen) {
  // A Still is of one reader alone.
  return const_cast<FrozenCells&>(static_cast<const FrozenCells&>(*frozen.still));
}

// --- the image --------------------------------------------------------------------------------------------

struct Head {
  Plan plan;
  std::uint64_t items = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t forgotten = 0;
};

bool begins_image(Bytes bytes) {
  return begins_with(bytes, magic);
}

Result<Head> read(Bytes bytes) {
  if (bytes.size() < head_bytes || !begins_image(bytes)) return damaged("the head of a filter is cut short");
  FieldReader reader(bytes.subspan(magic.size()));
  if (const auto its = reader.integer<std::uint16_t>(); its != version)
    return fail(Errc::unsupported_version, "a filter that deletes is of version " + std::to_string(its));
  if (reader.integer<std::uint16_t>() != 0) return damaged("the head of a filter has bits that no head has");
  Head head;
  head.items = reader.integer<std::uint64_t>();
  head.body_bytes = reader.integer<std::uint64_t>();
  if (head.body_bytes == 0 || head.body_bytes % line_bytes != 0)
    return damaged("a filter has a length that no filter has");
  auto plan = decode_plan(bytes.subspan(head_fields_bytes, plan_bytes));
  if (!plan) return plan.error();
  head.plan = *plan;
  head.forgotten = load_little_endian<std::uint64_t>(bytes.subspan(forgotten_at).data());
  return head;
}

Result<Shape> read_head(Bytes bytes, std::uint32_t /*layers_max*/) {
  const auto head = read(bytes);
  if (!head) return head.error();
  return Shape{.head_bytes = head_bytes, .body_bytes = head->body_bytes, .item_count = head->items};
}

Result<ValuePtr> make(Bytes bytes, const value::Limits& limits, value::FilledBy /*by*/) {
  const auto head = read(bytes);
  if (!head) return head.error();
  if (head->body_bytes > limits.bytes_max) return fail(Errc::too_large);
  return Filter::make(head->plan, head->forgotten, head->body_bytes);
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  FieldWriter writer(into);
  writer.bytes(std::as_bytes(std::span(magic)));
  writer.integer(version);
  writer.integer(std::uint16_t{0});
  writer.integer(cells_of(frozen).item_count());
  writer.integer(cells_of(frozen).byte_count());
  encode(in(frozen.value).plan(), into.subspan(head_fields_bytes, plan_bytes));
  store_little_endian(into.subspan(forgotten_at).data(), cells_of(frozen).forgotten());
}

// --- its records ------------------------------------------------------------------------------------------

Result<ValuePtr> make_recorded(Bytes head, const value::Limits& limits) {
  const auto plan = decode_plan(head);
  if (!plan) return plan.error();
  if (plan->byte_count() > limits.bytes_max) return fail(Errc::too_large);
  return Filter::create(*plan);
}

Result<ValuePtr> apply(Value& value, std::uint8_t what, Bytes bytes, const value::Limits& /*limits*/) {
  if (what != compacted_change || bytes.size() != sizeof(std::uint64_t))
    return damaged("a filter changes in a way that no filter does");
  in(value).begin_anew(load_little_endian<std::uint64_t>(bytes.data()));
  return ValuePtr();
}

// --- what is told -----------------------------------------------------------------------------------------

void tell_plan(const Plan& plan, Figures& to) {
  to.real("error_rate", plan.options.error_rate);
  to.number("capacity", plan.options.capacity);
  to.number("expansion", plan.options.expansion);
  to.seed(plan.options.seed);
}

void tell(const Value& value, Figures& to) {
  const Filter& filter = in(value);
  to.number("items", filter.item_count());
  to.number("items_removed", filter.removed_count());
  tell_plan(filter.plan(), to);
  const std::vector<Filter::LayerFigures> layers = filter.layers();
  to.real("false_positive_rate_now", Filter::rate_of(layers));
  to.part = "layer";
  for (const Filter::LayerFigures& layer : layers) {
    Figures figures;
    figures.number("items", layer.items);
    figures.number("cells", layer.cells);
    figures.number("slots", layer.slots);
    figures.number("memory_bytes", layer.bytes);
    figures.real("false_positive_rate_now", layer.rate);
    to.parts.push_back(std::move(figures.figures));
  }
}

std::string sentence(const Value& value) {
  const Filter& filter = in(value);
  return "a filter that deletes, with " + std::to_string(filter.item_count()) + " items in " +
         std::to_string(filter.layer_count()) + " layers";
}

void tell_head(Bytes bytes, Figures& to) {
  const auto head = read(bytes);
  if (!head) return;
  to.number("items", head->items);
  tell_plan(head->plan, to);
}

std::string_view tell_made(Bytes head, Figures& to) {
  if (const auto plan = decode_plan(head)) tell_plan(*plan, to);
  return "created";
}

constexpr value::Payload payload{
    .begins = [](Bytes bytes) { return value::begins_module_payload(cuckoo_row, bytes); },
    .bytes_max =
        [](Bytes bytes, std::uint32_t layers_max) {
          return value::module_payload_bytes_max(cuckoo_row, bytes, layers_max);
        },
    .read =
        [](Bytes bytes, const value::Limits& limits, const value::Hold& hold) {
          return value::read_module_payload(cuckoo_row, bytes, limits, hold);
        },
    .byte_count = value::module_payload_bytes,
    .memory_bytes = value::module_payload_bytes,
    .write = value::module_payload_of,
    .type = &module_type};

}  // namespace

std::array<std::byte, plan_bytes> made_record(const Plan& plan) {
  std::array<std::byte, plan_bytes> bytes;
  encode(plan, bytes);
  return bytes;
}

std::array<std::byte, sizeof(std::uint64_t)> compacted_record(std::uint64_t forgotten) {
  std::array<std::byte, sizeof forgotten> bytes;
  store_little_endian(bytes.data(), forgotten);
  return bytes;
}

const value::KindRow cuckoo_row{
    .kind = value::Kind::cuckoo,
    .type_name = "MBbloomCF",
    .word = "cuckoo filter",
    .destroy = [](Value* value) { delete static_cast<Filter*>(value); },
    .byte_count = [](const Value& value) { return in(value).byte_count(); },
    .settle = [](Value& value) { return in(value).settle(); },
    .item_count = [](const Value& value) { return in(value).item_count(); },
    .changes = [](const Value& value) { return in(value).change_count(); },
    .identity = [](const Value& value) { return in(value).identity(); },
    .prepare = nullptr,
    .encoding = nullptr,
    .make_state = nullptr,
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body = [](Value& value, std::uint64_t offset, Bytes from) { in(value).fill_body(offset, from); },
    .complete = [](Value& value) { return in(value).complete(); },
    .freeze = [](const Value& value, std::vector<std::uint64_t>& /*numbers*/) { return in(value).freeze(); },
    .head_bytes = [](const FrozenView&) { return head_bytes; },
    .body_bytes = [](const FrozenView& frozen) { return cells_of(frozen).byte_count(); },
    .encode_head = encode_head,
    .copy_body = [](const FrozenView& frozen, std::uint64_t offset,
                    std::span<std::byte> to) { cells_of(frozen).copy(offset, to); },
    .repeat = value::Repeat::again,
    .made_by_change = false,
    .make_recorded = make_recorded,
    .apply = apply,
    .add = [](Value& value, std::span<const Fingerprint> records) { return in(value).repeat(records); },
    .add_refused = "from here on a filter that deletes changes in layers that it cannot have",
    .tell = tell,
    .sentence = sentence,
    .tell_head = tell_head,
    .tell_made = tell_made,
    .tell_changed = [](std::uint8_t, Bytes, Figures&) { return std::string_view("compacted"); },
    .payload = &payload,
    .mirrors = false,
};

}  // namespace sepal::cuckoo
