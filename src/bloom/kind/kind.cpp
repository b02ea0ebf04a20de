// The numbers of a freeze are, for each layer, its address and its count: the list of the layers may grow
// while a reader goes through them, but no layer moves.
#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/bloom/kind/kind.hpp>

#include <algorithm>
#include <utility>

#include "bloom/filter/image_fields.hpp"
#include "bloom/filter/layer.hpp"
#include "bloom/filter/layer_state.hpp"

namespace sepal::bloom {
namespace {

using value::Figures;
using value::FrozenView;
using value::Shape;
using value::Value;
using value::ValuePtr;

constexpr std::size_t numbers_a_layer = 2;

Filter& filter_in(Value& value) {
  return static_cast<Filter&>(value);
}
const Filter& filter_in(const Value& value) {
  return static_cast<const Filter&>(value);
}

// The layers of an instant.
class FrozenLayers {
 public:
  explicit FrozenLayers(const FrozenView& frozen)
      : numbers_(frozen.numbers), options_(filter_in(frozen.value).options()) {
    SEPAL_ASSERT(!numbers_.empty() && numbers_.size() % numbers_a_layer == 0,
                 "a filter is read by the numbers of another value");
    while (foreign_ < size() && plan_of(foreign_).layout != Layout::blocked) ++foreign_;
  }

  [[nodiscard]] const FilterOptions& options() const { return options_; }
  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(numbers_.size() / numbers_a_layer);
  }
  [[nodiscard]] LayerView view(std::uint32_t index) const {
    return {layer(index), layer_error_rate(options_, {.index = index, .foreign_layers = foreign_})};
  }
  [[nodiscard]] Filter::LayerState state(std::uint32_t index) const {
    return {.plan = view(index).plan(), .item_count = numbers_[index * numbers_a_layer + 1]};
  }
  [[nodiscard]] std::uint64_t byte_count(std::uint32_t index) const { return plan_of(index).byte_count(); }

 private:
  [[nodiscard]] const Layer& layer(std::uint32_t index) const {
    // An address that freeze() wrote. NOLINTNEXTLINE(performance-no-int-to-ptr)
    return *reinterpret_cast<const Layer*>(numbers_[index * numbers_a_layer]);
  }
  [[nodiscard]] LayerPlan plan_of(std::uint32_t index) const { return layer(index).plan(); }

  std::span<const std::uint64_t> numbers_;
  FilterOptions options_;
  std::uint32_t foreign_ = 0;
};

// --- life -------------------------------------------------------------------------------------------------

void destroy(Value* value) {
  delete static_cast<Filter*>(value);
}

std::uint64_t byte_count(const Value& value) {
  return filter_in(value).byte_count();
}

std::uint64_t item_count(const Value& value) {
  return filter_in(value).item_count();
}

// Both only grow. A layer may be there before the item that made it necessary was counted.
std::uint64_t changes(const Value& value) {
  return filter_in(value).item_count() + filter_in(value).layer_count();
}

// Layers get their identities in the order in which they are made, so the highest belongs to one filter
// alone, and changes when it grows a large layer.
std::uint64_t identity(const Value& value) {
  std::uint64_t highest = 0;
  for (std::uint32_t index = 0; index < filter_in(value).layer_count(); ++index)
    highest = std::max(highest, filter_in(value).layer(index).identity());
  return highest;
}

bool prepare(Value& value, std::uint32_t worker_count) {
  Filter& filter = filter_in(value);
  if (worker_count > 0) filter.keep_usage(worker_count);
  return filter.fresh();
}

// --- the image --------------------------------------------------------------------------------------------

bool begins_image(std::span<const std::byte> bytes) {
  return begins_with(bytes, {image_magic.data(), image_magic.size()});
}

Result<Shape> read_head(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  const auto header = decode_image_header(bytes, layers_max);
  if (!header) return header.error();
  Shape shape{.head_bytes = image_bytes(header->layers.size()), .body_bytes = header->bitmap_bytes()};
  for (const Filter::LayerState& layer : header->layers) shape.item_count += layer.item_count;
  return shape;
}

Result<ValuePtr> make(std::span<const std::byte> head, const FilterLimits& limits, FilledBy filled_by) {
  const auto header = decode_image_header(head, limits.layers_max);
  if (!header) return header.error();
  return Filter::restore(header->options, header->layers, limits, filled_by);
}

void fill_body(Value& value, std::uint64_t offset, std::span<const std::byte> from) {
  fill_bits(filter_in(value), offset, from);
}

// Nothing is held: bits of a filter only go from 0 to 1.
std::unique_ptr<value::Still> freeze(const Value& value, std::vector<std::uint64_t>& numbers) {
  filter_in(value).freeze(numbers);
  return nullptr;
}

std::size_t head_bytes(const FrozenView& frozen) {
  return image_bytes(frozen.numbers.size() / numbers_a_layer);
}

std::uint64_t body_bytes(const FrozenView& frozen) {
  const FrozenLayers layers(frozen);
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0; index < layers.size(); ++index) bytes += layers.byte_count(index);
  return bytes;
}

void encode_head(const FrozenView& frozen, std::span<std::byte> into) {
  const FrozenLayers layers(frozen);
  encode(
      layers.options(), layers.size(),
      [&](std::size_t index) { return layers.state(static_cast<std::uint32_t>(index)); }, into);
}

void copy_body(const FrozenView& frozen, std::uint64_t offset, std::span<std::byte> to) {
  const FrozenLayers layers(frozen);
  for (std::uint32_t index = 0; !to.empty(); ++index) {
    SEPAL_ASSERT(index < layers.size(), "more bits are copied than the filter has");
    const std::uint64_t bytes = layers.byte_count(index);
    if (offset >= bytes) {
      offset -= bytes;
      continue;
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - offset, to.size()));
    layers.view(index).copy_bits(offset, to.first(count));
    to = to.subspan(count);
    offset = 0;
  }
}

// --- records ----------------------------------------------------------------------------

LayerPlan read_plan(FieldReader& reader) {
  LayerPlan plan;
  plan.capacity = reader.integer<std::uint64_t>();
  plan.error_rate = reader.real();
  plan.block_count = reader.integer<std::uint64_t>();
  plan.block_bits = reader.integer<std::uint32_t>();
  plan.probe_count = reader.integer<std::uint32_t>();
  return plan;
}

void write_plan(FieldWriter& writer, const LayerPlan& plan) {
  writer.integer(plan.capacity);
  writer.real(plan.error_rate);
  writer.integer(plan.block_count);
  writer.integer(plan.block_bits);
  writer.integer(plan.probe_count);
}

struct Made {
  FilterOptions options;
  LayerPlan first_layer;
};

// `head` has made_bytes.
std::optional<Made> read_made(std::span<const std::byte> head) {
  if (head.size() != made_bytes) return std::nullopt;
  FieldReader reader(head);
  Made made;
  made.options.seed = reader.integer<std::uint64_t>();
  made.options.error_rate = reader.real();
  made.options.capacity = reader.integer<std::uint64_t>();
  made.options.expansion = reader.integer<std::uint32_t>();
  if (reader.integer<std::uint32_t>() != 0) return std::nullopt;
  made.first_layer = read_plan(reader);
  return made;
}

Result<ValuePtr> make_recorded(std::span<const std::byte> head, const FilterLimits& limits) {
  const auto made = read_made(head);
  if (!made) return damaged("a filter is made of other bytes than a filter is made of");
  return Filter::recreate(made->options, made->first_layer, limits);
}

Result<ValuePtr> apply(Value& value, std::uint8_t what, std::span<const std::byte> bytes,
                       const FilterLimits& limits) {
  if (what != grown_change || bytes.size() != grown_bytes)
    return damaged("a filter changes in a way that no filter does");
  FieldReader reader(bytes);
  if (auto appended = filter_in(value).append_layer(read_plan(reader), limits); !appended)
    return appended.error();
  return ValuePtr();
}

bool add(Value& value, std::span<const Fingerprint> entries) {
  return filter_in(value).add_recorded(entries);
}

Result<ValuePtr> make_of_parts(std::span<const std::byte> head, std::span<const value::KindRow::Part> values,
                               const FilterLimits& limits, const value::GoOn& go_on) {
  const auto shape = decode_value_header(head, filter_layers_max);
  if (!shape) return shape.error();
  std::vector<PartLayers> parts;
  for (const value::KindRow::Part& part : values) {
    const Filter& filter = filter_in(*part.value);
    if (filter.options().hash != shape->options.hash || filter.options().seed != shape->options.seed)
      return damaged("a filter is made of one that has another hash");
    PartLayers& layers = parts.emplace_back(filter.layers());
    if (layers.size() > part.extent) layers.erase(layers.begin() + part.extent, layers.end());
  }
  auto made = bloom::unite(*shape, parts, limits, go_on);
  if (!made && made.error().code == Errc::out_of_range) return damaged(made.error().detail.c_str());
  if (!made) return made.error();
  return ValuePtr(std::move(*made));
}

// --- what is told -----------------------------------------------------------------------------------------

void tell_layer(const LayerPlan& plan, Figures& to, std::vector<value::Figure>& layer) {
  std::vector<value::Figure> outer = std::exchange(to.figures, std::move(layer));
  to.number("capacity", plan.capacity);
  to.real("error_rate", plan.error_rate);
  to.number("blocks", plan.block_count);
  to.number("block_bits", plan.block_bits);
  to.number("probes", plan.probe_count);
  if (plan.layout == Layout::double_hashing) to.text("layout", "double_hashing");
  if (plan.layout == Layout::client) {
    to.text("layout", "client");
    to.text("scheme", facts_of(plan.scheme).name);
    to.number("bits", plan.client_bits().bit_count);
    to.number("first_seed", plan.first_seed);
  }
  layer = std::exchange(to.figures, std::move(outer));
}

void tell_options(const FilterOptions& options, Figures& to) {
  to.real("error_rate", options.error_rate);
  to.number("capacity", options.capacity);
  to.number("expansion", options.expansion);
  to.seed(options.seed);
  if (options.hash == ItemHash::redisbloom) to.text("hash", "redisbloom");
  if (options.hash == ItemHash::xxh3_above_bitmap) to.text("hash", "xxh3_above_bitmap");
}

void tell(const Value& value, Figures& to) {
  const Filter& filter = filter_in(value);
  to.number("items", filter.item_count());
  tell_options(filter.options(), to);
  to.part = "layer";
  for (const LayerView& layer : filter.layers()) {
    std::vector<value::Figure> figures;
    figures.push_back({"items", layer.item_count()});
    tell_layer(layer.plan(), to, figures);
    to.parts.push_back(std::move(figures));
  }
}

void tell_head(std::span<const std::byte> head, Figures& to) {
  const auto header = decode_image_header(head, filter_layers_max);
  if (!header) return;
  std::uint64_t items = 0;
  for (const auto& layer : header->layers) items += layer.item_count;
  to.number("items", items);
  to.number("layers", header->layers.size());
  tell_options(header->options, to);
}

std::string_view tell_made(std::span<const std::byte> head, Figures& to) {
  // The capacity and the rate of the first layer follow from the filter's.
  if (const auto made = read_made(head)) {
    tell_options(made->options, to);
    to.number("blocks", made->first_layer.block_count);
    to.number("block_bits", made->first_layer.block_bits);
    to.number("probes", made->first_layer.probe_count);
  }
  return "created";
}

std::string_view tell_changed(std::uint8_t what, std::span<const std::byte> bytes, Figures& to) {
  if (what == grown_change && bytes.size() == grown_bytes) {
    FieldReader reader(bytes);
    tell_layer(read_plan(reader), to, to.figures);
  }
  return "grown";
}

std::string sentence(const Value& value) {
  const Filter& filter = filter_in(value);
  return "a filter with " + std::to_string(filter.item_count()) + " items in " +
         std::to_string(filter.layer_count()) + " layers";
}

}  // namespace

std::array<std::byte, made_bytes> made_record(const FilterPlan& plan) {
  SEPAL_ASSERT(plan.options.hash == ItemHash::xxh3, "a filter with a foreign hash is recorded as it is made");
  std::array<std::byte, made_bytes> bytes;
  FieldWriter writer(bytes);
  writer.integer(plan.options.seed);
  writer.real(plan.options.error_rate);
  writer.integer(plan.options.capacity);
  writer.integer(plan.options.expansion);
  writer.integer(std::uint32_t{0});
  write_plan(writer, plan.first_layer);
  return bytes;
}

std::array<std::byte, grown_bytes> grown_record(const LayerPlan& plan) {
  std::array<std::byte, grown_bytes> bytes;
  FieldWriter writer(bytes);
  write_plan(writer, plan);
  return bytes;
}

const value::KindRow bloom_row{
    .kind = value::Kind::bloom,
    .type_name = "MBbloom--",
    .word = "filter",
    .destroy = destroy,
    .byte_count = byte_count,
    .item_count = item_count,
    .changes = changes,
    .identity = identity,
    .prepare = prepare,
    .small_pages = [](const Value& value,
                      std::vector<value::SmallPages>& to) { filter_in(value).small_pages(to); },
    .encoding = nullptr,
    .make_state = []() -> std::unique_ptr<value::KindState> { return std::make_unique<SharedPlans>(); },
    .begins_image = begins_image,
    .read_head = read_head,
    .make = make,
    .fill_body = fill_body,
    .complete = nullptr,
    .freeze = freeze,
    .head_bytes = head_bytes,
    .body_bytes = body_bytes,
    .encode_head = encode_head,
    .copy_body = copy_body,
    .repeat = value::Repeat::once,
    .made_by_change = false,
    .make_recorded = make_recorded,
    .apply = apply,
    .add = add,
    .add_refused = "from here on a filter gets more items than its newest layer has room for",
    .unite = make_of_parts,
    .tell = tell,
    .sentence = sentence,
    .tell_head = tell_head,
    .tell_made = tell_made,
    .tell_changed = tell_changed,
    .payload = &filter_payload,
    .mirrors = true,
};

}  // namespace sepal::bloom
