#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/cuckoo/native/plan.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cuckoo/cells/cell_lines.hpp"
#include "cuckoo/native/layer.hpp"

namespace sepal::cuckoo {
namespace {

// Q0 << identity_bits stays within 64 bits, and a remainder may have first_part_bits_max more.
constexpr unsigned identity_bits_max = 43;
constexpr unsigned layer_growth_bits = 10;
// A layer that grows begins with at most this fraction of a root, as a power of two.
constexpr unsigned first_part_bits_max = 4;
constexpr std::uint32_t first_quotients_min = 64;
// The first of several layers leaves some of the rate to the later ones.
constexpr double first_share = 0.96;

// The smallest remainder with which a layer of this load errs at most at `rate`.
unsigned remainder_bits_for(double rate, double load) {
  for (unsigned bits = 1; bits < remainder_bits_max; ++bits)
    if (load / static_cast<double>(std::uint64_t{1} << bits) <= rate) return bits;
  return remainder_bits_max;
}

LayerPlan growing_layer(unsigned identity_bits, unsigned remainder_bits_min, std::uint32_t root_quotients) {
  unsigned part = 0;
  while (part < first_part_bits_max && (root_quotients >> (part + 1)) >= first_quotients_min &&
         identity_bits + part + 1 < remainder_bits_max)
    ++part;
  return {.identity_bits = static_cast<std::uint8_t>(identity_bits),
          .remainder_bits_min = static_cast<std::uint8_t>(remainder_bits_min),
          .remainder_bits_first = static_cast<std::uint8_t>(identity_bits + part)};
}

// Each further layer may hold 2^layer_growth_bits times the items of all before it, at half of the rate that
// is left. Where the identities would need more bits than there are, the layer has those that there are, and
// is the last.
void add_further_layers(Plan& plan, double rate_left) {
  const LayerPlan& first = plan.layers[0];
  unsigned growth = first.identity_bits - first.remainder_bits_min;
  for (; plan.layer_count < layer_count_max; ++plan.layer_count) {
    const unsigned remainder_bits = remainder_bits_for(rate_left / 2, full_load);
    growth += layer_growth_bits;
    const LayerPlan& before = plan.layers[plan.layer_count - 1];
    const unsigned wanted_bits = std::max<unsigned>(remainder_bits + growth, before.identity_bits);
    const unsigned identity_bits = std::min(wanted_bits, identity_bits_max);
    if (identity_bits <= remainder_bits) return;
    plan.layers[plan.layer_count] = growing_layer(identity_bits, remainder_bits, plan.root_quotients);
    if (identity_bits < wanted_bits) {
      ++plan.layer_count;
      return;
    }
    rate_left -= full_load / static_cast<double>(std::uint64_t{1} << remainder_bits);
  }
}

bool possible(const LayerPlan& layer, std::uint32_t root_quotients) {
  if (layer.remainder_bits_min < 1 || layer.remainder_bits_min > layer.remainder_bits_first ||
      layer.remainder_bits_first > remainder_bits_max || layer.identity_bits > identity_bits_max ||
      layer.identity_bits < layer.remainder_bits_min || layer.identity_bits > layer.remainder_bits_first)
    return false;
  const unsigned part = layer.remainder_bits_first - layer.identity_bits;
  if (part > first_part_bits_max) return false;
  const std::uint64_t first_quotients = (root_quotients + (std::uint64_t{1} << part) - 1) >> part;
  return first_quotients <= CellShape::quotients_max(layer.remainder_bits_first);
}

}  // namespace

std::uint64_t Plan::byte_count() const {
  return Layer::byte_count(*this, 0);
}

Result<Plan> plan(const Options& options, std::uint64_t bytes_max) {
  if (options.capacity == 0 || options.capacity > capacity_max || !(options.error_rate > 0) ||
      !(options.error_rate < 1))
    return fail(Errc::out_of_range, "no filter has such a capacity or rate");
  Plan planned{.options = options};
  const bool scaling = options.scaling();
  const unsigned remainder_bits = scaling ? remainder_bits_for(options.error_rate * first_share, full_load)
                                          : remainder_bits_for(options.error_rate, planned_load);
  const unsigned spare = scaling && !options.capacity_given ? layer_growth_bits : 0;
  const unsigned identity_bits = std::min(remainder_bits + spare, identity_bits_max);
  if (remainder_bits > identity_bits) return fail(Errc::out_of_range, "the rate is too small");
  const double quotients = std::ceil(static_cast<double>(options.capacity) / planned_load);
  planned.root_count =
      static_cast<std::uint32_t>(std::ceil(quotients / CellShape::quotients_max(identity_bits)));
  planned.root_quotients = static_cast<std::uint32_t>(std::ceil(quotients / planned.root_count));
  planned.layer_count = 1;
  planned.layers[0] = {.identity_bits = static_cast<std::uint8_t>(identity_bits),
                       .remainder_bits_min = static_cast<std::uint8_t>(remainder_bits),
                       .remainder_bits_first = static_cast<std::uint8_t>(identity_bits)};
  const double rate_of_first = full_load / static_cast<double>(std::uint64_t{1} << remainder_bits);
  if (scaling) add_further_layers(planned, options.error_rate - rate_of_first);
  if (planned.byte_count() > bytes_max) return fail(Errc::too_large);
  return planned;
}

void encode(const Plan& plan, std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() == plan_bytes, "a plan is written to a place of another size");
  FieldWriter writer(into);
  writer.integer(plan.options.seed);
  writer.integer(plan.options.capacity);
  writer.real(plan.options.error_rate);
  writer.integer(plan.options.expansion);
  writer.integer(plan.options.bucket_size);
  writer.integer(plan.options.iteration_max);
  writer.integer(plan.root_count);
  writer.integer(plan.root_quotients);
  writer.integer(static_cast<std::uint8_t>(plan.layer_count));
  writer.integer(static_cast<std::uint8_t>(plan.options.capacity_given ? 1 : 0));
  for (const LayerPlan& layer : plan.layers) {
    writer.integer(layer.identity_bits);
    writer.integer(layer.remainder_bits_min);
    writer.integer(layer.remainder_bits_first);
  }
  writer.integer(std::uint16_t{0});
}

Result<Plan> decode_plan(std::span<const std::byte> bytes) {
  if (bytes.size() != plan_bytes) return damaged("a filter's plan has another length than plans have");
  FieldReader reader(bytes);
  Plan plan;
  plan.options.seed = reader.integer<std::uint64_t>();
  plan.options.capacity = reader.integer<std::uint64_t>();
  plan.options.error_rate = reader.real();
  plan.options.expansion = reader.integer<std::uint32_t>();
  plan.options.bucket_size = reader.integer<std::uint16_t>();
  plan.options.iteration_max = reader.integer<std::uint16_t>();
  plan.root_count = reader.integer<std::uint32_t>();
  plan.root_quotients = reader.integer<std::uint32_t>();
  plan.layer_count = reader.integer<std::uint8_t>();
  const auto given = reader.integer<std::uint8_t>();
  plan.options.capacity_given = given != 0;
  for (LayerPlan& layer : plan.layers) {
    layer.identity_bits = reader.integer<std::uint8_t>();
    layer.remainder_bits_min = reader.integer<std::uint8_t>();
    layer.remainder_bits_first = reader.integer<std::uint8_t>();
  }
  const Options& options = plan.options;
  const bool options_possible = options.capacity >= 1 && options.capacity <= capacity_max &&
                                options.error_rate > 0 && options.error_rate < 1 &&
                                options.expansion <= expansion_max && options.bucket_size >= 1 &&
                                options.bucket_size <= bucket_size_max && options.iteration_max >= 1 &&
                                reader.integer<std::uint16_t>() == 0 && given <= 1;
  if (!options_possible || plan.root_count < 1 || plan.root_count > root_count_max ||
      plan.root_quotients < 1 || plan.layer_count < 1 || plan.layer_count > layer_count_max)
    return damaged("a filter's plan contradicts itself");
  for (std::size_t at = 0; at < layer_count_max; ++at) {
    const LayerPlan& layer = plan.layers[at];
    const bool right =
        at < plan.layer_count
            ? possible(layer, plan.root_quotients) &&
                  (at == 0 || (!layer.fixed() && layer.identity_bits >= plan.layers[at - 1].identity_bits))
            : layer == LayerPlan{};
    if (!right) return damaged("a filter's plan has a layer that contradicts it");
  }
  return plan;
}

}  // namespace sepal::cuckoo
