// The head of an image:
//
//     "SPWF" | version (2 bytes) | layers (2 bytes) | options 36 | newest generation 8 | changes 8
//            | items of each lane, 8 bytes each
//     and for each layer, oldest first:   number 8 | capacity 8 | shape 20 | places taken in each lane, 8
//                                         bytes each
//
// The body is the stamps and the lines of all layers. Nothing is held while they are copied: the bits of a
// lane only go from 0 to 1 under one stamp. A lane that is used again meanwhile was over at the instant that
// it is used again, and the image's old stamp says so then.
#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/unite.hpp>
#include <sepal/value/module_payload.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "bloom/window/entries.hpp"
#include "bloom/window/window_layer.hpp"

namespace sepal::bloom {
namespace window_kind {
namespace {

using value::Figures;
using value::FrozenView;
using value::Shape;
using value::Value;
using value::ValuePtr;
using Bytes = std::span<const std::byte>;

constexpr std::string_view window_magic = "SPWF";
constexpr std::uint16_t window_version = 1;
constexpr std::size_t fixed_bytes = 8 + window_options_bytes + 16;
constexpr std::uint8_t refresh_flag = 1;
constexpr std::uint64_t numbered_apart_max = std::uint64_t{1} << entry_layer_bits;

bool is_possible_generation(std::uint64_t generation, std::uint32_t lanes) {
  return generation >= lanes && generation <= generation_number_max;
}

WindowFilter& in(Value& value) {
  return static_cast<WindowFilter&>(value);
}
const WindowFilter& in(const Value& value) {
  return static_cast<const WindowFilter&>(value);
}

// --- fields -----------------------------------------------------------------------------------------------

void write_options(FieldWriter& writer, const WindowOptions& options) {
  writer.integer(options.seed);
  writer.real(options.error_rate);
  writer.integer(options.capacity);
  writer.integer(options.milliseconds);
  writer.integer(static_cast<std::uint16_t>(options.expansion));
  writer.integer(static_cast<std::uint8_t>(options.generations));
  writer.integer(static_cast<std::uint8_t>(options.refresh ? refresh_flag : 0));
}

Result<WindowOptions> read_options(FieldReader& reader) {
  WindowOptions options;
  options.seed = reader.integer<std::uint64_t>();
  options.error_rate = reader.real();
  options.capacity = reader.integer<std::uint64_t>();
  options.milliseconds = reader.integer<std::uint64_t>();
  options.expansion = reader.integer<std::uint16_t>();
  options.generations = reader.integer<std::uint8_t>();
  const auto flags = reader.integer<std::uint8_t>();
  options.refresh = (flags & refresh_flag) != 0;
  if ((flags & ~refresh_flag) != 0) return damaged("a filter that forgets has bits that no such filter has");
  if (!check(options)) return damaged("a filter that forgets is asked for what no such filter is asked for");
  return options;
}

// A layer's shape, without its capacity.
void write_shape(FieldWriter& writer, const LanePlan& plan) {
  writer.real(plan.error_rate);
  writer.integer(plan.block_count);
  writer.integer(static_cast<std::uint8_t>(plan.zone_lines));
  writer.integer(static_cast<std::uint8_t>(plan.zones));
  writer.integer(static_cast<std::uint8_t>(plan.probes));
  writer.integer(std::uint8_t{0});
}

Result<LanePlan> read_shape(FieldReader& reader, std::uint64_t capacity, std::uint32_t lanes) {
  LanePlan plan{.capacity = capacity};
  plan.error_rate = reader.real();
  plan.block_count = reader.integer<std::uint64_t>();
  plan.zone_lines = reader.integer<std::uint8_t>();
  plan.zones = reader.integer<std::uint8_t>();
  plan.probes = reader.integer<std::uint8_t>();
  if (reader.integer<std::uint8_t>() != 0 || !is_possible(plan, lanes))
    return damaged("a layer of a filter that forgets has an impossible shape");
  return plan;
}

// --- the image --------------------------------------------------------------------------------------------

constexpr std::size_t layer_bytes(std::uint32_t lanes) {
  return 16 + window_shape_bytes + lanes * sizeof(std::uint64_t);
}
constexpr std::size_t head_bytes_of(std::uint32_t lanes, std::size_t layers) {
  return fixed_bytes + lanes * sizeof(std::uint64_t) + layers * layer_bytes(lanes);
}

bool begins_image(Bytes bytes) {
  return begins_with(bytes, window_magic);
}

Result<WindowFilter::LayerState> read_layer(FieldReader& reader, std::uint32_t lanes) {
  WindowFilter::LayerState layer;
  layer.number = reader.integer<std::uint64_t>();
  const auto capacity = reader.integer<std::uint64_t>();
  auto plan = read_shape(reader, capacity, lanes);
  if (!plan) return plan.error();
  layer.plan = *plan;
  if (layer.number > window_layer_number_max)
    return damaged("a layer of a filter that forgets has no number");
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    layer.taken[lane] = reader.integer<std::uint64_t>();
    if (layer.taken[lane] > items_of_lane_max)
      return damaged("a filter that forgets has more items than any filter");
  }
  return layer;
}

// The layers behind the other fields of a head.
Result<void> read_layers(Bytes bytes, std::size_t count, WindowFilter::Restored& state) {
  const std::uint32_t lanes = state.options.lanes();
  constexpr std::uint64_t body_bytes_max = std::uint64_t{1} << 60;
  std::uint64_t body_bytes = 0;
  FieldReader reader(bytes);
  for (std::size_t index = 0; index < count; ++index) {
    auto layer = read_layer(reader, lanes);
    if (!layer) return layer.error();
    if (!state.layers.empty() && layer->number <= state.layers.back().number)
      return damaged("the layers of a filter that forgets are not in their order");
    // Records have the low bits of a number alone.
    if (!state.layers.empty() && layer->number - state.layers.front().number >= numbered_apart_max)
      return damaged("the layers of a filter that forgets have numbers that are too far apart");
    body_bytes += layer->plan.byte_count(lanes);
    if (body_bytes > body_bytes_max) return damaged("a filter that forgets has more bits than there are");
    state.layers.push_back(*layer);
  }
  return {};
}

Result<WindowFilter::Restored> read_state(Bytes bytes, std::uint32_t layers_max) {
  if (bytes.size() < fixed_bytes || !begins_image(bytes))
    return damaged("the head of a filter that forgets is cut short");
  FieldReader reader(bytes.subspan(window_magic.size()));
  if (const auto its = reader.integer<std::uint16_t>(); its != window_version)
    return fail(Errc::unsupported_version, "a filter that forgets is of version " + std::to_string(its));
  const std::size_t layer_count = reader.integer<std::uint16_t>();
  WindowFilter::Restored state;
  auto options = read_options(reader);
  if (!options) return options.error();
  state.options = *options;
  state.newest = reader.integer<std::uint64_t>();
  state.changes = reader.integer<std::uint64_t>();
  const std::uint32_t lanes = state.options.lanes();
  if (layer_count == 0) return damaged("a filter that forgets has no layer");
  if (layer_count > layers_max) return too_many_layers(layers_max);
  if (bytes.size() < head_bytes_of(lanes, layer_count))
    return damaged("the head of a filter that forgets is cut short");
  if (!is_possible_generation(state.newest, lanes))
    return damaged("a filter that forgets is in a generation that never comes");
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const auto items = reader.integer<std::uint64_t>();
    if (items > items_of_lane_max) return damaged("a filter that forgets has more items than any filter");
    state.items[lane] = static_cast<std::int64_t>(items);
  }
  if (auto read = read_layers(bytes.subspan(head_bytes_of(lanes, 0)), layer_count, state); !read)
    return read.error();
  return state;
}

std::uint64_t items_of(const WindowFilter::Restored& state) {
  std::int64_t items = 0;
  for (const std::int64_t of_lane : state.items) items += of_lane;
  return static_cast<std::uint64_t>(items);
}

Result<Shape> read_head(Bytes bytes, std::uint32_t layers_max) {
  const auto state = read_state(bytes, layers_max);
  if (!state) return state.error();
  Shape shape{.head_bytes = head_bytes_of(state->options.lanes(), state->layers.size()),
              .item_count = items_of(*state)};
  for (const auto& layer : state->layers) shape.body_bytes += layer.plan.byte_count(state->options.lanes());
  return shape;
}

Result<ValuePtr> make(Bytes bytes, const value::Limits& limits, value::FilledBy filled_by) {
  const auto state = read_state(bytes, limits.layers_max);
  if (!state) return state.error();
  auto filter = WindowFilter::restore(*state, limits, filled_by);
  if (!filter) return filter.error();
  return ValuePtr(std::move(*filter));
}

// What WindowFilter::freeze has written.
class FrozenWindow {
 public:
  explicit FrozenWindow(const FrozenView& frozen)
      : options_(in(frozen.value).options()), numbers_(frozen.numbers) {}

  [[nodiscard]] const WindowOptions& options() const { return options_; }
  [[nodiscard]] std::size_t layer_count() const { return (numbers_.size() - before_layers()) / layer_step(); }
  [[nodiscard]] const WindowLayer& layer(std::size_t index) const {
    // An address that freeze() wrote; the filter drops no layer while a reader has it.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return *reinterpret_cast<const WindowLayer*>(numbers_[before_layers() + index * layer_step()]);
  }
  // Newest generation, changes, and the items of each lane.
  [[nodiscard]] std::span<const std::uint64_t> totals() const { return numbers_.first(before_layers()); }
  // The places taken in each lane.
  [[nodiscard]] std::span<const std::uint64_t> taken(std::size_t index) const {
    return numbers_.subspan(before_layers() + index * layer_step() + 1, options_.lanes());
  }

 private:
  [[nodiscard]] std::size_t before_layers() const { return 2 + options_.lanes(); }
  [[nodiscard]] std::size_t layer_step() const { return 1 + options_.lanes(); }

  const WindowOptions& options_;
  std::span<const std::uint64_t> numbers_;
};

std::size_t head_bytes(const FrozenView& frozen) {
  const FrozenWindow filter(frozen);
  return head_bytes_of(filter.options().lanes(), filter.layer_count());
}

std::uint64_t body_bytes(const FrozenView& frozen) {
  const FrozenWindow filter(frozen);
  std::uint64_t bytes = 0;
  for (std::size_t index = 0; index < filter.layer_count(); ++index)
    bytes += filter.layer(index).byte_count();
  return bytes;
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  const FrozenWindow filter(frozen);
  FieldWriter writer(into);
  writer.bytes(std::as_bytes(std::span(window_magic)));
  writer.integer(window_version);
  writer.integer(static_cast<std::uint16_t>(filter.layer_count()));
  write_options(writer, filter.options());
  for (const std::uint64_t total : filter.totals()) writer.integer(total);
  for (std::size_t index = 0; index < filter.layer_count(); ++index) {
    writer.integer(filter.layer(index).number());
    writer.integer(filter.layer(index).plan().capacity);
    write_shape(writer, filter.layer(index).plan());
    for (const std::uint64_t places : filter.taken(index)) writer.integer(places);
  }
}

void copy_body(const FrozenView& frozen, std::uint64_t offset, std::span<std::byte> to) {
  const FrozenWindow filter(frozen);
  for (std::size_t index = 0; !to.empty(); ++index) {
    SEPAL_ASSERT(index < filter.layer_count(), "more bits are copied than the filter has");
    const WindowLayer& layer = filter.layer(index);
    if (offset >= layer.byte_count()) {
      offset -= layer.byte_count();
      continue;
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(layer.byte_count() - offset, to.size()));
    layer.copy(offset, to.first(count));
    to = to.subspan(count);
    offset = 0;
  }
}

// --- its records ------------------------------------------------------------------------------------------

Result<ValuePtr> make_recorded(Bytes head, const value::Limits& limits) {
  if (head.size() != window_made_bytes)
    return damaged("a filter that forgets is made of other bytes than it is made of");
  FieldReader reader(head);
  WindowFilter::Restored state;
  auto options = read_options(reader);
  if (!options) return options.error();
  state.options = *options;
  state.newest = reader.integer<std::uint64_t>();
  if (!is_possible_generation(state.newest, state.options.lanes()))
    return damaged("a filter that forgets is in a generation that never comes");
  auto plan = read_shape(reader, state.options.generation_items(), state.options.lanes());
  if (!plan) return plan.error();
  state.layers.push_back({.plan = *plan});
  auto filter = WindowFilter::restore(state, limits, value::FilledBy::load);
  if (!filter) return filter.error();
  return ValuePtr(std::move(*filter));
}

Result<ValuePtr> apply(Value& value, std::uint8_t what, Bytes bytes, const value::Limits& limits) {
  if (what != window_grown_change || bytes.size() != window_grown_bytes)
    return damaged("a filter that forgets changes in a way that no such filter does");
  FieldReader reader(bytes);
  const auto generation = reader.integer<std::uint64_t>();
  const auto capacity = reader.integer<std::uint64_t>();
  auto plan = read_shape(reader, capacity, in(value).options().lanes());
  if (!plan) return plan.error();
  if (auto appended = in(value).append_layer(generation, *plan, limits); !appended) return appended.error();
  return ValuePtr();
}

Result<ValuePtr> make_of_parts(Bytes head, std::span<const value::KindRow::Part> parts,
                               const value::Limits& limits, const value::GoOn& go_on) {
  auto state = read_state(head, united_window_layers_max);
  if (!state) return state.error();
  const auto whole = recorded_union(std::move(*state), parts);
  if (!whole) return whole.error();
  auto filter = WindowFilter::restore(whole->shape, limits, value::FilledBy::load);
  if (!filter) return filter.error();
  std::uint64_t bytes_done = 0;
  if (auto taken = take_parts(**filter, *whole, go_on, bytes_done); !taken) return taken.error();
  return ValuePtr(std::move(*filter));
}

// --- what is told -----------------------------------------------------------------------------------------

void tell_options(const WindowOptions& options, Figures& to) {
  to.real("error_rate", options.error_rate);
  to.number("capacity", options.capacity);
  to.number("expansion", options.expansion);
  to.number("window_milliseconds", options.milliseconds);
  to.number("generations", options.generations);
  to.number("refresh", options.refresh ? 1 : 0);
  to.seed(options.seed);
}

void tell_lanes(const LanePlan& plan, Figures& to) {
  to.number("capacity", plan.capacity);
  to.real("error_rate", plan.error_rate);
  to.number("blocks", plan.block_count);
  to.number("zones", plan.zones);
  to.number("zone_lines", plan.zone_lines);
  to.number("zone_probes", plan.probes);
}

void tell(const Value& value, Figures& to) {
  const WindowFilter& filter = in(value);
  to.number("items", filter.item_count());
  tell_options(filter.options(), to);
  to.part = "layer";
  for (std::uint32_t index = 0; index < filter.layer_count(); ++index) {
    Figures figures;
    tell_lanes(filter.layer(index).plan(), figures);
    to.parts.push_back(std::move(figures.figures));
  }
}

void tell_head(Bytes bytes, Figures& to) {
  const auto state = read_state(bytes, filter_layers_max);
  if (!state) return;
  to.number("items", items_of(*state));
  to.number("layers", state->layers.size());
  tell_options(state->options, to);
}

std::string sentence(const Value& value) {
  const WindowFilter& filter = in(value);
  return "a filter that forgets, with " + std::to_string(filter.item_count()) + " items in " +
         std::to_string(filter.layer_count()) + " layers";
}

std::string_view tell_made(Bytes head, Figures& to) {
  if (head.size() == window_made_bytes) {
    FieldReader reader(head);
    if (const auto options = read_options(reader)) tell_options(*options, to);
  }
  return "created";
}

std::string_view tell_changed(std::uint8_t, Bytes bytes, Figures& to) {
  if (bytes.size() == window_grown_bytes) {
    FieldReader reader(bytes);
    to.number("generation", reader.integer<std::uint64_t>());
    const auto capacity = reader.integer<std::uint64_t>();
    if (const auto plan = read_shape(reader, capacity, 1)) tell_lanes(*plan, to);
  }
  return "grown";
}

// --- the type of sepal.so ---------------------------------------------------------------------------------

// No other program has such values.
Result<ValuePtr> read_foreign_window(value::RdbFields&, int encoding_version, const value::LimitsOfNew&) {
  return fail(Errc::unsupported_version,
              "a filter that forgets is of encoding version " + std::to_string(encoding_version) +
                  "; this module reads its own, " + std::to_string(sepal_encoding));
}

constexpr value::ModuleType window_type{.name = window_type_name,
                                        .encoding_version = sepal_encoding,
                                        .read_foreign = read_foreign_window,
                                        .give_pieces = value::give_module_payload};

constexpr value::Payload window_payload{
    .begins = [](Bytes bytes) { return value::begins_module_payload(window_row, bytes); },
    .bytes_max =
        [](Bytes bytes, std::uint32_t layers_max) {
          return value::module_payload_bytes_max(window_row, bytes, layers_max);
        },
    .read =
        [](Bytes bytes, const value::Limits& limits, const value::Hold& hold) {
          return value::read_module_payload(window_row, bytes, limits, hold);
        },
    .byte_count = value::module_payload_bytes,
    .memory_bytes = value::module_payload_bytes,
    .write = value::module_payload_of,
    .type = &window_type};

constexpr value::KindRow row{
    .kind = value::Kind::window,
    .type_name = window_type_name,
    .word = "windowed filter",
    .destroy = [](Value* value) { delete static_cast<WindowFilter*>(value); },
    .byte_count = [](const Value& value) { return in(value).byte_count(); },
    .item_count = [](const Value& value) { return in(value).item_count(); },
    .changes = [](const Value& value) { return in(value).change_count() + in(value).layers_made(); },
    .identity = [](const Value& value) { return in(value).identity(); },
    .prepare = [](Value& value, std::uint32_t) { return in(value).fresh(); },
    .small_pages = [](const Value& value, std::vector<value::SmallPages>& to) { in(value).small_pages(to); },
    .encoding = nullptr,
    .make_state = nullptr,
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body = [](Value& value, std::uint64_t offset, Bytes from) { in(value).fill_body(offset, from); },
    .complete = [](Value& value) -> Result<void> {
      in(value).complete();
      return {};
    },
    .freeze = [](const Value& value,
                 std::vector<std::uint64_t>& numbers) { return in(value).freeze(numbers); },
    .head_bytes = head_bytes,
    .body_bytes = body_bytes,
    .encode_head = encode_head,
    .copy_body = copy_body,
    .repeat = value::Repeat::once,
    .made_by_change = false,
    .make_recorded = make_recorded,
    .apply = apply,
    .add = [](Value& value, std::span<const Fingerprint> records) { return in(value).repeat(records); },
    .add_refused = "from here on a filter that forgets has items in layers that it does not have",
    .unite = make_of_parts,
    .tell = tell,
    .sentence = sentence,
    .tell_head = tell_head,
    .tell_made = tell_made,
    .tell_changed = tell_changed,
    .payload = &window_payload,
    .mirrors = false,
};

}  // namespace
}  // namespace window_kind

std::array<std::byte, window_made_bytes> made_record(const WindowFilter& filter) {
  std::array<std::byte, window_made_bytes> bytes;
  FieldWriter writer(bytes);
  window_kind::write_options(writer, filter.options());
  writer.integer(filter.newest_generation());
  window_kind::write_shape(writer, filter.layer(0).plan());
  return bytes;
}

std::array<std::byte, window_grown_bytes> grown_record(std::uint64_t generation, const LanePlan& plan) {
  std::array<std::byte, window_grown_bytes> bytes;
  FieldWriter writer(bytes);
  writer.integer(generation);
  writer.integer(plan.capacity);
  window_kind::write_shape(writer, plan);
  return bytes;
}

constinit const value::KindRow window_row = window_kind::row;

}  // namespace sepal::bloom
