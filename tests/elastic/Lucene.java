// Does with Lucene what Elasticsearch does with an index's analyzers: indexes texts, and searches them as `match` does.
//
//   java -cp JARS tests/elastic/Lucene.java CHAIN ROWS
//
// A line of CHAIN is a step: index or query, the filter's name, its arguments. A line of ROWS is a language, a query, the
// text and others; for each, the scores of the text and of the best of the others are printed. Tabs separate, and
// everything but ASCII is written as Java escapes it.

import java.io.Reader;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.*;
import org.apache.lucene.analysis.ar.*;
import org.apache.lucene.analysis.charfilter.*;
import org.apache.lucene.analysis.cjk.*;
import org.apache.lucene.analysis.core.DecimalDigitFilter;
import org.apache.lucene.analysis.core.FlattenGraphFilter;
import org.apache.lucene.analysis.cz.CzechStemFilter;
import org.apache.lucene.analysis.el.GreekStemFilter;
import org.apache.lucene.analysis.fa.PersianNormalizationFilter;
import org.apache.lucene.analysis.hi.HindiStemFilter;
import org.apache.lucene.analysis.id.IndonesianStemFilter;
import org.apache.lucene.analysis.miscellaneous.*;
import org.apache.lucene.analysis.pattern.PatternReplaceCharFilter;
import org.apache.lucene.analysis.snowball.SnowballFilter;
import org.apache.lucene.analysis.standard.StandardTokenizer;
import org.apache.lucene.analysis.tr.TurkishLowerCaseFilter;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.search.*;
import org.apache.lucene.store.ByteBuffersDirectory;
import org.apache.lucene.util.QueryBuilder;

public class Lucene {
  record Step(String side, String name, String[] values) {}

  static List<Step> chain = new ArrayList<>();

  static class Reading extends Analyzer {
    final String side, language;

    Reading(String side, String language) {
      this.side = side;
      this.language = language;
    }

    @Override
    protected Reader initReader(String field, Reader reader) {
      for (Step step : steps()) {
        if (step.name.equals("mapping")) {
          NormalizeCharMap.Builder map = new NormalizeCharMap.Builder();
          for (int i = 0; i < step.values.length; i += 2) map.add(step.values[i], step.values[i + 1]);
          reader = new MappingCharFilter(map.build(), reader);
        } else if (step.name.equals("pattern_replace")) {
          reader = new PatternReplaceCharFilter(Pattern.compile(step.values[0]), step.values[1], reader);
        }
      }
      return reader;
    }

    @Override
    protected TokenStreamComponents createComponents(String field) {
      StandardTokenizer tokenizer = new StandardTokenizer();
      TokenStream tokens = tokenizer;
      for (Step step : steps()) tokens = filter(step, tokens);
      return new TokenStreamComponents(tokenizer, tokens);
    }

    List<Step> steps() {
      return chain.stream().filter(step -> step.side.equals(side)).toList();
    }

    TokenStream filter(Step step, TokenStream in) {
      return switch (step.name) {
        case "mapping", "pattern_replace" -> in;
        case "word_delimiter_graph" ->
            new WordDelimiterGraphFilter(
                in, false, WordDelimiterIterator.DEFAULT_WORD_DELIM_TABLE, Integer.parseInt(step.values[0]), null);
        case "flatten_graph" -> new FlattenGraphFilter(in);
        case "cjk_width" -> new CJKWidthFilter(in);
        case "lowercase" ->
            language.equals("turkish")
                ? new TurkishLowerCaseFilter(in)
                : new org.apache.lucene.analysis.core.LowerCaseFilter(in);
        case "decimal_digit" -> new DecimalDigitFilter(in);
        case "arabic_normalization" -> new ArabicNormalizationFilter(in);
        case "persian_normalization" -> new PersianNormalizationFilter(in);
        case "cjk_bigram" -> new CJKBigramFilter(in);
        case "asciifolding" -> new ASCIIFoldingFilter(in, true);
        case "stemmer" -> stemmer(in);
        case "remove_duplicates" -> new RemoveDuplicatesTokenFilter(in);
        default -> throw new IllegalArgumentException(step.name);
      };
    }

    TokenStream stemmer(TokenStream in) {
      return switch (language) {
        case "-", "esperanto", "nepali", "persian", "polish", "serbian", "tamil", "yiddish" -> in; // it has none
        case "arabic" -> new ArabicStemFilter(in);
        case "czech" -> new CzechStemFilter(in);
        case "greek" -> new GreekStemFilter(in);
        case "hindi" -> new HindiStemFilter(in);
        case "indonesian" -> new IndonesianStemFilter(in);
        default -> new SnowballFilter(in, language.substring(0, 1).toUpperCase() + language.substring(1));
      };
    }
  }

  public static void main(String[] arguments) throws Exception {
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      String[] cells = cells(line);
      chain.add(new Step(cells[0], cells[1], Arrays.copyOfRange(cells, 2, cells.length)));
    }
    for (String line : Files.readAllLines(Path.of(arguments[1]))) {
      String[] cells = cells(line);
      ByteBuffersDirectory folder = new ByteBuffersDirectory();
      try (IndexWriter writer = new IndexWriter(folder, new IndexWriterConfig(new Reading("index", cells[0])))) {
        for (String text : Arrays.copyOfRange(cells, 2, cells.length)) {
          Document document = new Document();
          document.add(new TextField("content", text, Field.Store.NO));
          writer.addDocument(document);
        }
      }
      QueryBuilder builder = new QueryBuilder(new Reading("query", cells[0]));
      builder.setAutoGenerateMultiTermSynonymsPhraseQuery(true);
      Query query = builder.createBooleanQuery("content", cells[1]);
      float own = 0, best = 0;
      if (query != null) {
        for (ScoreDoc hit : new IndexSearcher(DirectoryReader.open(folder)).search(query, 100).scoreDocs) {
          if (hit.doc == 0) own = hit.score;
          else best = Math.max(best, hit.score);
        }
      }
      System.out.println(own + "\t" + best);
    }
  }

  static String[] cells(String line) {
    String[] cells = line.split("\t", -1);
    for (int i = 0; i < cells.length; i++)
      cells[i] =
          Pattern.compile("\\\\u([0-9a-f]{4})")
              .matcher(cells[i])
              .replaceAll(m -> java.util.regex.Matcher.quoteReplacement("" + (char) Integer.parseInt(m.group(1), 16)));
    return cells;
  }
}
