// The layers of a filter, for the sources of its members. Each request asks for them, so this is inline.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <atomic>
#include <new>
#include <span>

#include "bloom/filter/layer.hpp"

namespace sepal::bloom {

inline Layer& Filter::first() const {
  // It follows this object in the allocation (allocate()).
  return *std::launder(reinterpret_cast<Layer*>(const_cast<Filter*>(this) + 1));
}

// Acquire: a thread that finds a layer finds the layers before it full.
inline LayerStack Filter::stack() const {
  return {first(), younger_.load(std::memory_order_acquire)};
}

}  // namespace sepal::bloom
