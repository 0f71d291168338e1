// Boost's algorithms on segmentations as they are.
#include "segmenter/boost_graph.h"

#include <gtest/gtest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/incremental_components.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/graph/transitive_reduction.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "segmenter/segment.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"

namespace seam {
namespace {

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<SegmentedFusion>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<SegmentedFusion>));
BOOST_CONCEPT_ASSERT((boost::IncidenceGraphConcept<SegmentedFusion>));
BOOST_CONCEPT_ASSERT((boost::BidirectionalGraphConcept<SegmentedFusion>));

struct Graph {
  explicit Graph(const std::string& body)
      : fusion(*ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"))),
        segmented(*Segment(fusion, RuleGuard())) {}
  Fusion fusion;
  SegmentedFusion segmented;
};

// g0: p, g1 and g2: matmuls of p, g3: q. Apart from them, and deeper, g4.
constexpr char kDiamond[] = R"(input a: f32[8, 8]
  input u: f32[3]
  p = exp(a)
  m = matmul(p, a)
  n = matmul(p, p)
  q = m + n
  z = exp(sin(cos(tan(u))))
  output q
  output z)";

TEST(BoostGraphTest, DegreesAndEdges) {
  const Graph g(kDiamond);
  const SegmentedFusion& s = g.segmented;
  EXPECT_EQ(num_vertices(s), 5u);
  EXPECT_EQ(num_edges(s), 4u);
  EXPECT_EQ(out_degree(0, s), 2u);
  EXPECT_EQ(in_degree(0, s), 0u);
  EXPECT_EQ(in_degree(3, s), 2u);
  EXPECT_EQ(degree(1, s), 2u);
  for (auto [e, end] = edges(s); e != end; ++e) EXPECT_LT(source(*e, s), target(*e, s));
}

TEST(BoostGraphTest, TopologicalSortAndComponents) {
  const Graph g(kDiamond);
  const SegmentedFusion& s = g.segmented;
  std::vector<uint32_t> order;
  boost::topological_sort(s, std::back_inserter(order));
  std::vector<size_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (auto [e, end] = edges(s); e != end; ++e)
    EXPECT_GT(position[source(*e, s)], position[target(*e, s)]);

  std::vector<int> component(num_vertices(s));
  const int strong = boost::strong_components(
      s, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, s)));
  EXPECT_EQ(strong, 5);  // No cycle.

  std::vector<uint32_t> rank(num_vertices(s)), parent(num_vertices(s));
  const auto rank_map =
      boost::make_iterator_property_map(rank.begin(), get(boost::vertex_index, s));
  const auto parent_map =
      boost::make_iterator_property_map(parent.begin(), get(boost::vertex_index, s));
  boost::disjoint_sets<decltype(rank_map), decltype(parent_map)> sets(rank_map, parent_map);
  boost::initialize_incremental_components(s, sets);
  boost::incremental_components(s, sets);
  const auto [begin, end] = vertices(s);
  EXPECT_EQ(sets.count_sets(begin, end), 2u);
}

TEST(BoostGraphTest, Graphviz) {
  const Graph g(kDiamond);
  std::ostringstream out;
  boost::write_graphviz(out, g.segmented);
  EXPECT_NE(out.str().find("0->1"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("0->3"), std::string::npos);
}

TEST(BoostGraphTest, TransitiveReduction) {
  const Graph g(R"(input a: f32[8, 8]
    p = exp(a)
    m = matmul(p, a)
    q = m + p
    output q)");
  const SegmentedFusion& s = g.segmented;
  EXPECT_EQ(num_edges(s), 3u);
  using Plain = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  Plain reduced;
  std::vector<Plain::vertex_descriptor> image(num_vertices(s));
  std::vector<size_t> index(num_vertices(s));
  for (size_t i = 0; i < index.size(); ++i) index[i] = i;
  boost::transitive_reduction(
      s, reduced, boost::make_iterator_property_map(image.begin(), get(boost::vertex_index, s)),
      boost::make_iterator_property_map(index.begin(), get(boost::vertex_index, s)));
  EXPECT_EQ(boost::num_edges(reduced), 2u);
}

TEST(BoostGraphTest, RandomSegmentationsHaveNoCycle) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    absl::StatusOr<Fusion> f = RandomFusion(seed + 700000, 30).Make();
    ASSERT_TRUE(f.ok()) << f.status();
    absl::StatusOr<SegmentedFusion> s = Segment(*f, RuleGuard());
    ASSERT_TRUE(s.ok()) << s.status();
    std::vector<uint32_t> order;
    boost::topological_sort(*s, std::back_inserter(order));  // Throws on a cycle.
    EXPECT_EQ(order.size(), s->num_groups());
  }
}

}  // namespace
}  // namespace seam
