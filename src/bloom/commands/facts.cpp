#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/texts.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

namespace sepal::bloom {
namespace {

using InfoValue = std::optional<std::uint64_t>;

constexpr InfoField info_table[] = {
    {"CAPACITY", "Capacity", [](const InfoFacts& facts) -> InfoValue { return facts.capacity; }},
    {"SIZE", "Size", [](const InfoFacts& facts) -> InfoValue { return facts.byte_count; }},
    {"FILTERS", "Number of filters", [](const InfoFacts& facts) -> InfoValue { return facts.layers; }},
    {"ITEMS", "Number of items inserted", [](const InfoFacts& facts) -> InfoValue { return facts.items; }},
    {"EXPANSION", "Expansion rate",
     [](const InfoFacts& facts) { return facts.expansion != 0 ? InfoValue(facts.expansion) : std::nullopt; }},
};

std::string line_of_layer(std::uint64_t bytes, std::uint64_t bits, std::uint32_t probes, int hash_bits,
                          std::uint64_t capacity, std::uint64_t items, double rate) {
  std::array<char, 64> ratio{};  // "%g" writes at most 13 characters
  std::snprintf(ratio.data(), ratio.size(), "%g", rate);
  std::string text = "bytes:" + std::to_string(bytes);
  text += " bits:" + std::to_string(bits);
  text += " hashes:" + std::to_string(probes);
  text += " hashwidth:" + std::to_string(hash_bits);
  text += " capacity:" + std::to_string(capacity);
  text += " size:" + std::to_string(items);
  return text + " ratio:" + ratio.data();
}

constexpr int fingerprint_bits = 128;
constexpr int half_fingerprint_bits = 64;

}  // namespace

std::span<const InfoField> info_fields() {
  return info_table;
}

const InfoField* find_info_field(std::string_view argument) {
  const auto* const found = std::ranges::find_if(
      info_table, [&](const InfoField& each) { return equal_ignoring_case(each.argument, argument); });
  return found != std::end(info_table) ? found : nullptr;
}

std::string_view bad_field_text(std::string_view argument) {
  constexpr std::pair<std::string_view, std::string_view> of_valkey[] = {
      {"ERROR", text::field_error},
      {"TIGHTENING", text::field_tightening},
      {"MAXSCALEDCAPACITY", text::field_max_capacity}};
  for (const auto& [field, answer] : of_valkey)
    if (equal_ignoring_case(argument, field)) return answer;
  return text::bad_field;
}

std::optional<InfoFacts> info_of(const value::Value* found, WallTime now) {
  if (const auto* const filter = value::as<Filter>(found))
    return InfoFacts{.capacity = filter->capacity(),
                     .byte_count = filter->byte_count(),
                     .layers = filter->layer_count(),
                     .items = filter->item_count(),
                     .expansion = filter->options().expansion};
  if (const auto* const filter = value::as<WindowFilter>(found))
    return InfoFacts{.capacity = filter->capacity(),
                     .byte_count = filter->byte_count(),
                     .layers = filter->layer_count(),
                     .items = filter->item_count(now),
                     .expansion = filter->options().expansion};
  return std::nullopt;
}

// RedisBloom's filters have a hash of 64 bits.
std::string debug_line(const LayerView& layer) {
  const LayerPlan plan = layer.plan();
  const bool of_redisbloom = plan.layout == Layout::double_hashing;
  return line_of_layer(plan.byte_count(), plan.bit_count(), plan.probe_count,
                       of_redisbloom ? half_fingerprint_bits : fingerprint_bits, plan.capacity,
                       layer.item_count(), plan.error_rate);
}

std::string debug_line(const WindowFilter::LayerFigures& layer, std::uint32_t lanes) {
  constexpr std::uint64_t bits_a_byte = 8;
  const LanePlan& plan = layer.plan;
  return line_of_layer(plan.byte_count(lanes), bits_a_byte * plan.byte_count(lanes),
                       std::uint32_t{plan.zones} * plan.probes, half_fingerprint_bits, plan.capacity,
                       layer.items, plan.error_rate * lanes);
}

std::size_t reserve_words_max(std::span<const std::string_view> words) {
  // The count of words is checked before the options are parsed. So this only looks for the words behind the
  // capacity that the reference does not know.
  constexpr std::size_t options_at = 4;
  constexpr std::size_t words_of_reference = 7;
  constexpr std::pair<std::string_view, std::size_t> own_words[] = {
      {"EX", 2}, {"WINDOW", 2}, {"LAST", 1}, {"GENERATIONS", 2}, {"REFRESH", 1}};
  std::size_t most = words_of_reference;
  if (words.size() <= options_at) return most;
  for (const auto& own : own_words)
    if (std::ranges::any_of(words.subspan(options_at),
                            [&](std::string_view word) { return equal_ignoring_case(word, own.first); }))
      most += own.second;
  return most;
}

std::string text_of(Filter::Refusal refusal, std::uint32_t layer_count) {
  if (refusal == Filter::Refusal::full) return std::string(text::filter_full);
  std::string text(text::cannot_grow);
  if (refusal != Filter::Refusal::layer_limit) return text + ": there is no memory for a further layer";
  return text + ": it has as many layers as layers_max allows (" + std::to_string(layer_count) + ")";
}

std::string wrong_arity(std::string_view command_name) {
  std::string text = "ERR wrong number of arguments for '";
  text.append(command_name).append("' command");
  return text;
}

}  // namespace sepal::bloom
