// Filters that forget. The continued part tells of its adds by their records, with the generation of each. So
// a generation that begins meanwhile does so in the new filter too, with the first add that it hears of.
#include <sepal/bloom/window/unite.hpp>

#include <utility>

#include "command/bloom/uniting.hpp"

namespace sepal::command {
namespace {

using bloom::WindowFilter;

class UnitingWindows final : public Uniting {
 public:
  explicit UnitingWindows(const RemakeRequest& request) : request_(request) {
    for (const value::ValuePtr& part : request.parts) filters_.push_back(value::as<WindowFilter>(part.get()));
  }

  Result<void> begin() override {
    auto whole = bloom::union_of(filters_, request_.continued, request_.now);
    if (!whole) return whole.error();
    whole_ = std::move(*whole);
    if (request_.continued) layers_then_ = filters_[*request_.continued]->layers_made();
    return {};
  }

  Result<void> count() override {
    const auto measured = bloom::count_union(whole_, sampled_bytes_max / filters_.size());
    const double allowed = request_.allowed.value_or(whole_.shape.options.error_rate);
    if (measured.highest_rate > allowed * rate_tolerance)
      return too_full(measured.highest_rate, allowed, "a generation of it has",
                      static_cast<double>(measured.items), whole_.shape.layers.back().plan.capacity);
    return {};
  }

  [[nodiscard]] std::uint64_t byte_count() const override { return whole_.layer_bytes(); }

  Result<value::ValuePtr> make(const value::Limits& limits) const override {
    auto made = WindowFilter::restore(whole_.shape, limits, value::FilledBy::load);
    if (!made) return made.error();
    return value::ValuePtr(std::move(*made));
  }

  Result<void> take_parts(value::Value& made, const value::GoOn& go_on) override {
    std::uint64_t bytes_done = 0;
    return bloom::take_parts(value::as<WindowFilter>(made), whole_, go_on, bytes_done);
  }

  bool take_entries(value::Value& made, std::span<const Fingerprint> entries) override {
    return value::as<WindowFilter>(made).repeat(entries);
  }

  // repeat() has counted.
  bool finish(value::Value& made) const override {
    if (!request_.continued) return true;
    if (filters_[*request_.continued]->layers_made() != layers_then_) return false;
    return request_.allowed || bloom::keeps_shares(value::as<WindowFilter>(made), whole_);
  }

  [[nodiscard]] std::uint32_t extent(std::size_t part) const override {
    return bloom::extent_of(whole_.parts[part]);
  }

 private:
  const RemakeRequest& request_;
  std::vector<const WindowFilter*> filters_;
  bloom::WindowUnion whole_;
  std::uint64_t layers_then_ = 0;  // that the continued part had had
};

}  // namespace

std::unique_ptr<Uniting> uniting_of_windows(const RemakeRequest& request) {
  return std::make_unique<UnitingWindows>(request);
}

}  // namespace sepal::command
