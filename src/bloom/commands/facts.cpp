#include <sepal/base/arguments.hpp>
#include <sepal/bloom/commands/facts.hpp>
#include <sepal/bloom/commands/texts.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

namespace sepal::bloom {
namespace {

using bloom::Filter;
using InfoValue = std::optional<std::uint64_t>;

constexpr InfoField info_table[] = {
    {"CAPACITY", "Capacity", [](const Filter& filter) -> InfoValue { return filter.capacity(); }},
    {"SIZE", "Size", [](const Filter& filter) -> InfoValue { return filter.byte_count(); }},
    {"FILTERS", "Number of filters", [](const Filter& filter) -> InfoValue { return filter.layer_count(); }},
    {"ITEMS", "Number of items inserted",
     [](const Filter& filter) -> InfoValue { return filter.item_count(); }},
    {"EXPANSION", "Expansion rate",
     [](const Filter& filter) {
       return filter.options().scaling() ? InfoValue(filter.options().expansion) : std::nullopt;
     }},
};

}  // namespace

std::span<const InfoField> info_fields() {
  return info_table;
}

const InfoField* find_info_field(std::string_view argument) {
  const auto* const found = std::ranges::find_if(
      info_table, [&](const InfoField& each) { return equal_ignoring_case(each.argument, argument); });
  return found != std::end(info_table) ? found : nullptr;
}

std::string debug_line(const bloom::LayerView& layer) {
  constexpr int fingerprint_bits = 128;
  constexpr int redisbloom_hash_bits = 64;
  const bloom::LayerPlan plan = layer.plan();
  const bool is_of_redisbloom = plan.layout == bloom::Layout::double_hashing;
  std::array<char, 64> ratio{};  // "%g" writes at most 13 characters
  std::snprintf(ratio.data(), ratio.size(), "%g", plan.error_rate);
  std::string text = "bytes:" + std::to_string(plan.byte_count());
  text += " bits:" + std::to_string(plan.bit_count());
  text += " hashes:" + std::to_string(plan.probe_count);
  text += " hashwidth:" + std::to_string(is_of_redisbloom ? redisbloom_hash_bits : fingerprint_bits);
  text += " capacity:" + std::to_string(plan.capacity);
  text += " size:" + std::to_string(layer.item_count());
  return text + " ratio:" + ratio.data();
}

std::size_t reserve_words_max(std::span<const std::string_view> words) {
  // The count of words is checked before the options are parsed. So this only looks for the word EX behind
  // the capacity.
  constexpr std::size_t options_at = 4;
  const auto is_expiry = [](std::string_view word) { return equal_ignoring_case(word, "EX"); };
  const bool expires = words.size() > options_at && std::ranges::any_of(words.subspan(options_at), is_expiry);
  return expires ? 9 : 7;
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
