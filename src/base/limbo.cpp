#include <sepal/base/limbo.hpp>

#include <thread>

namespace sepal {

Limbo::~Limbo() {
  for (end_some(); !empty(); end_some()) std::this_thread::yield();
}

void Limbo::retire(void* object, void (*end)(void*)) {
  if (gate_ == nullptr) return end(object);
  young_.push_back({.object = object, .end = end});
  if (young_.size() % young_max == 0) end_left();
}

// Two generations: while the older waits for its readers, objects gather in the younger.
void Limbo::end_left() {
  while (!old_.empty() || !young_.empty()) {
    if (old_.empty()) {
      old_.swap(young_);
      gate_->note_visits(visits_);
    }
    if (!gate_->have_left(visits_)) return;
    end_all(old_);
  }
}

void Limbo::end_all(std::vector<Retired>& retired) {
  for (const Retired& each : retired) each.end(each.object);
  retired.clear();
}

}  // namespace sepal
