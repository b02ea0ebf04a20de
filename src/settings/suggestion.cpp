#include "suggestion.hpp"

#include <sepal/base/nearest_name.hpp>

namespace sepal::settings {

const Setting* nearest_setting(std::string_view name) {
  NearestName nearest(name);
  const Setting* meant = nullptr;
  for (const Setting& setting : all_settings()) {
    if (nearest.is_nearer(setting.key)) meant = &setting;
    if (!setting.redis_name.empty() && nearest.is_nearer(setting.redis_name)) meant = &setting;
  }
  return meant;
}

}  // namespace sepal::settings
