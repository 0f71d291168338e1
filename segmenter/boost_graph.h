// Makes SegmentedFusion a Boost graph: vertex list, edge list, incidence and bidirectional, so that
// Boost's algorithms run on it as it is. Vertices are the groups' numbers, edges the EdgeIds
// between groups (data and order); what reads a fusion input is no edge. Numbers of groups that
// were merged away are vertices without edges: a finished segmentation has none.
//
// Costs seconds to compile: for files that run such algorithms, and for no other header.
// Thread-safety: that of SegmentedFusion.
#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/filter_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <cstdint>
#include <utility>

#include "segmenter/segmented_fusion.h"

namespace seam {

struct IsBetweenGroups {
  const SegmentedFusion* segmented = nullptr;
  bool operator()(EdgeId e) const {
    return segmented->edge_alive(e) && segmented->edge(e).from.valid();
  }
};

}  // namespace seam

namespace boost {

template <>
struct graph_traits<seam::SegmentedFusion> {
  using vertex_descriptor = uint32_t;
  using edge_descriptor = seam::EdgeId;
  using directed_category = bidirectional_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  struct traversal_category : bidirectional_graph_tag,
                              vertex_list_graph_tag,
                              edge_list_graph_tag {};
  using vertices_size_type = uint32_t;
  using edges_size_type = uint32_t;
  using degree_size_type = uint32_t;
  using vertex_iterator = counting_iterator<uint32_t>;
  using out_edge_iterator = seam::SegmentedFusion::EdgeRange::iterator;
  using in_edge_iterator =
      filter_iterator<seam::IsBetweenGroups, seam::SegmentedFusion::EdgeRange::iterator>;

  // All ids below edge_limit().
  class any_edge_iterator : public iterator_adaptor<any_edge_iterator, counting_iterator<uint32_t>,
                                                    seam::EdgeId, use_default, seam::EdgeId> {
   public:
    any_edge_iterator() = default;
    explicit any_edge_iterator(uint32_t i)
        : iterator_adaptor<any_edge_iterator, counting_iterator<uint32_t>, seam::EdgeId,
                           use_default, seam::EdgeId>(counting_iterator<uint32_t>(i)) {}

   private:
    friend class iterator_core_access;
    seam::EdgeId dereference() const { return seam::EdgeId(*this->base()); }
  };
  using edge_iterator = filter_iterator<seam::IsBetweenGroups, any_edge_iterator>;

  static vertex_descriptor null_vertex() { return 0xffffffffu; }
};

template <>
struct graph_traits<const seam::SegmentedFusion> : graph_traits<seam::SegmentedFusion> {};

template <>
struct property_map<seam::SegmentedFusion, vertex_index_t> {
  using type = identity_property_map;
  using const_type = identity_property_map;
};

}  // namespace boost

namespace seam {

using GraphTraits = boost::graph_traits<SegmentedFusion>;

inline std::pair<GraphTraits::vertex_iterator, GraphTraits::vertex_iterator> vertices(
    const SegmentedFusion& s) {
  return {GraphTraits::vertex_iterator(0), GraphTraits::vertex_iterator(s.group_limit())};
}
inline uint32_t num_vertices(const SegmentedFusion& s) { return s.group_limit(); }

inline std::pair<GraphTraits::edge_iterator, GraphTraits::edge_iterator> edges(
    const SegmentedFusion& s) {
  const GraphTraits::any_edge_iterator begin(0), end(s.edge_limit());
  return {GraphTraits::edge_iterator(IsBetweenGroups{&s}, begin, end),
          GraphTraits::edge_iterator(IsBetweenGroups{&s}, end, end)};
}
inline uint32_t num_edges(const SegmentedFusion& s) {
  const auto [begin, end] = edges(s);
  return static_cast<uint32_t>(std::distance(begin, end));
}

inline uint32_t source(EdgeId e, const SegmentedFusion& s) { return s.edge(e).from.index(); }
inline uint32_t target(EdgeId e, const SegmentedFusion& s) { return s.edge(e).to.index(); }

inline std::pair<GraphTraits::out_edge_iterator, GraphTraits::out_edge_iterator> out_edges(
    uint32_t g, const SegmentedFusion& s) {
  const SegmentedFusion::EdgeRange range = s.out_edges(GroupId(g));
  return {range.begin(), range.end()};
}
inline uint32_t out_degree(uint32_t g, const SegmentedFusion& s) {
  return s.out_edges(GroupId(g)).size();
}

inline std::pair<GraphTraits::in_edge_iterator, GraphTraits::in_edge_iterator> in_edges(
    uint32_t g, const SegmentedFusion& s) {
  const SegmentedFusion::EdgeRange range = s.in_edges(GroupId(g));
  return {GraphTraits::in_edge_iterator(IsBetweenGroups{&s}, range.begin(), range.end()),
          GraphTraits::in_edge_iterator(IsBetweenGroups{&s}, range.end(), range.end())};
}
inline uint32_t in_degree(uint32_t g, const SegmentedFusion& s) {
  const auto [begin, end] = in_edges(g, s);
  return static_cast<uint32_t>(std::distance(begin, end));
}
inline uint32_t degree(uint32_t g, const SegmentedFusion& s) {
  return in_degree(g, s) + out_degree(g, s);
}

inline boost::identity_property_map get(boost::vertex_index_t, const SegmentedFusion&) {
  return {};
}

}  // namespace seam
