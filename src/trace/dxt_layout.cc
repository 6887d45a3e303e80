// SPDX-License-Identifier: Apache-2.0
#include "trace/dxt_layout.h"

#include <algorithm>
#include <charconv>

namespace tutti::trace {
namespace {

constexpr std::size_t kMostComponents = 256;
constexpr std::uint64_t kLargestStripe = std::uint64_t{1} << 40;

// The text after `key`, without blanks at its begin. Nothing: the line has no such key.
std::optional<std::string_view> after(std::string_view line, std::string_view key) {
  const std::size_t found = line.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  line.remove_prefix(found + key.size());
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line;
}

std::optional<std::uint64_t> number_at(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "0 - 1048576" or "1048576 - EOF"
bool read_extent(std::string_view text, std::uint64_t& begin, std::uint64_t& end) {
  const auto from = number_at(text);
  const auto rest = after(text, "-");
  if (!from || !rest) return false;
  std::string_view last = *rest;
  const auto to = last.starts_with("EOF") ? ~std::uint64_t{0} : number_at(last);
  if (!to || *to <= *from) return false;
  begin = *from;
  end = *to;
  return true;
}

// Numbers with blanks or commas between them.
bool read_osts(std::string_view text, std::vector<std::uint32_t>& osts) {
  osts.clear();
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t,"), text.size()));
    if (text.empty()) return true;
    const auto number = number_at(text);
    if (!number || *number >= kMostOsts || osts.size() == kMostOsts) return osts.clear(), false;
    osts.push_back(static_cast<std::uint32_t>(*number));
  }
}

}  // namespace

// Nothing: too many components.
DxtLayout::Component* DxtLayout::component_of(std::string_view line) {
  std::uint64_t number = 0;
  if (auto text = after(line, "[Component")) number = number_at(*text).value_or(0);
  const auto known = std::ranges::find(components_, number, &Component::number);
  if (known != components_.end()) return &*known;
  if (components_.size() == kMostComponents) return nullptr;
  components_.push_back({.number = number});
  return &components_.back();
}

const char* DxtLayout::read(std::string_view line) {
  const auto extent = after(line, "stripe_ext:");
  auto size = after(line, "stripe_size:"), count = after(line, "stripe_count:");
  auto osts = after(line, "obdidx:");
  if (!osts) osts = after(line, "OSTs:");
  if (!extent && !size && !count && !osts) return nullptr;  // a title
  Component* component = component_of(line);
  if (component == nullptr) return "more than 256 components; this one is left out";
  if (extent && !read_extent(*extent, component->begin, component->end)) return "stripe_ext is not BEGIN - END";
  if (size) {
    component->stripe_size = number_at(*size).value_or(0);
    if (component->stripe_size > kLargestStripe) component->stripe_size = 0;
    if (component->stripe_size == 0) return "stripe_size is not a number from 1 to 2^40";
  }
  if (count) component->stripe_count = number_at(*count).value_or(0);
  if (osts && !read_osts(*osts, component->osts)) return "an OST is not a number below 65536; the layout is left out";
  const bool differs = component->stripe_count > 0 && component->stripe_count != component->osts.size();
  if (osts && !component->osts.empty() && differs) return "stripe_count is not the number of OSTs; the OSTs count";
  return nullptr;
}

bool DxtLayout::usable() const {
  return std::ranges::any_of(components_, &Component::usable);
}

std::optional<std::uint32_t> DxtLayout::ost_of(std::uint64_t offset) const {
  std::optional<std::uint32_t> ost;
  for (const Component& component : components_) {
    if (!component.usable() || offset < component.begin || offset >= component.end) continue;
    if (ost) return std::nullopt;
    ost = component.osts[offset / component.stripe_size % component.osts.size()];
  }
  return ost;
}

bool DxtLayout::split(std::uint64_t offset, std::uint64_t length, std::vector<DxtPiece>& pieces) const {
  const std::size_t before = pieces.size();
  std::uint64_t found = 0;
  for (const Component& component : components_) {
    const std::uint64_t begin = std::max(offset, component.begin), end = std::min(offset + length, component.end);
    if (!component.usable() || begin >= end) continue;
    found += end - begin;
    if (found > length) break;
    component.split(begin, end, pieces);
  }
  if (found == length) return true;
  pieces.resize(before);
  return false;
}

// The bytes of this stripe position that lie before `offset`. Stripes are counted from the begin of the file, in every
// component.
std::uint64_t DxtLayout::Component::below(std::uint64_t offset, std::uint64_t position) const {
  const std::uint64_t width = stripe_size * osts.size(), stripe_begin = stripe_size * position,
                      in_width = offset % width;
  return offset / width * stripe_size + (in_width < stripe_begin ? 0 : std::min(in_width - stripe_begin, stripe_size));
}

void DxtLayout::Component::split(std::uint64_t from, std::uint64_t to, std::vector<DxtPiece>& pieces) const {
  const std::uint64_t first = from / stripe_size, last = (to - 1) / stripe_size;
  const std::uint64_t positions = std::min<std::uint64_t>(osts.size(), last - first + 1);
  for (std::uint64_t stripe = first; stripe < first + positions; ++stripe) {
    const std::uint64_t position = stripe % osts.size();
    pieces.push_back({.ost = osts[position],
                      .offset = std::max(from, stripe * stripe_size),
                      .length = below(to, position) - below(from, position)});
  }
}

}  // namespace tutti::trace
