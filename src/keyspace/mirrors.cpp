#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mirrors.hpp>
#include <sepal/value/kind_row.hpp>

namespace sepal::keyspace {

std::size_t Mirrors::broken_count() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      links_, [](const auto& link) { return link->mirror.state != MirrorState::whole; }));
}

std::vector<Mirror> Mirrors::all() const {
  std::vector<Mirror> mirrors;
  mirrors.reserve(links_.size());
  for (const auto& link : links_) mirrors.push_back(link->mirror);
  return mirrors;
}

void Mirrors::add(const Mirror& mirror, value::Value& source, value::Value& target) {
  SEPAL_ASSERT(&source != &target, "a filter that is its own mirror");
  SEPAL_ASSERT(links_.size() < mirrors_max && of(source) == nullptr && of(target) == nullptr,
               "a mirror that may not be");
  // `ends_` points to the links, which stay where they are when `links_` grows. It knows filters by their
  // address: the keyspace drops a mirror before it gives up one of its ends, so no address here is ever of
  // another filter.
  links_.push_back(std::make_unique<Link>(Link{.mirror = mirror, .source = &source, .target = &target}));
  ends_[&source] = links_.back().get();
  ends_[&target] = links_.back().get();
  measure_keys();
}

void Mirrors::set_state(const value::Value& source, MirrorState state) {
  SEPAL_ASSERT(from(source) != nullptr, "the state of a mirror that is there");
  SEPAL_ASSERT(state != MirrorState::off, "a mirror that ends is dropped, and has no state");
  ends_.at(&source)->mirror.state = state;
}

void Mirrors::rename(const value::Value& end, std::string_view key) {
  const auto found = ends_.find(&end);
  if (found == ends_.end()) return;
  Link& link = *found->second;
  (link.source == &end ? link.mirror.source : link.mirror.target) = key;
  measure_keys();
}

bool Mirrors::drop(const value::Value& end) {
  const Link* const link = of(end);
  if (link == nullptr) return false;
  // The link goes last: both ends are read from it.
  const std::size_t erased = ends_.erase(link->source) + ends_.erase(link->target);
  SEPAL_ASSERT(erased == 2, "a mirror that goes has lost one of its ends");
  std::erase_if(links_, [&](const auto& each) { return each.get() == link; });
  measure_keys();
  return true;
}

void Mirrors::replace(const value::Value& end, value::Value& by) {
  const auto found = ends_.find(&end);
  if (found == ends_.end()) return;
  Link* const link = found->second;
  (link->source == &end ? link->source : link->target) = &by;
  ends_.erase(found);
  ends_[&by] = link;
}

Follower* Mirrors::follower_of(const value::Value& filter) const {
  for (const auto& [followed, follower] : followed_)
    if (followed == &filter) return follower;
  return nullptr;
}

void Mirrors::follow(const value::Value& filter, Follower& follower) {
  SEPAL_ASSERT(follower_of(filter) == nullptr, "a filter is followed twice");
  followed_.emplace_back(&filter, &follower);
}

void Mirrors::unfollow(const value::Value& filter) {
  std::erase_if(followed_, [&](const auto& each) { return each.first == &filter; });
}

void Mirrors::drop_database(std::uint32_t database) {
  // drop() changes `links_`, so the sources are listed first.
  std::vector<const value::Value*> sources;
  for (const auto& link : links_)
    if (link->mirror.database == database) sources.push_back(link->source);
  for (const value::Value* const source : sources) drop(*source);
}

void Mirrors::swap_databases(std::uint32_t database, std::uint32_t other) {
  for (const auto& link : links_) {
    if (link->mirror.database == database) {
      link->mirror.database = other;
    } else if (link->mirror.database == other) {
      link->mirror.database = database;
    }
  }
}

// Counted anew each time: after a rename or a drop, the longest name may be gone. There are at most
// mirrors_max links.
void Mirrors::measure_keys() {
  SEPAL_ASSERT(ends_.size() == 2 * links_.size(), "each mirror has two ends");
  key_bytes_max_ = 0;
  for (const auto& link : links_)
    key_bytes_max_ = std::max({key_bytes_max_, link->mirror.source.size(), link->mirror.target.size()});
}

std::uint64_t items_mirrored(const Mirrors::Link& link) {
  const std::uint64_t now = value::row_of(*link.source).item_count(*link.source);
  return now - std::min(now, link.mirror.items_before);
}

}  // namespace sepal::keyspace
