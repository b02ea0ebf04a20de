// Writes the vectors of Guava for vectors.txt: see README.md. The positions are the bits that Guava's own filter
// sets for one item.
//
// Needs the Debian packages libguava-java and default-jdk-headless.
import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnels;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Scanner;

public final class GuavaVectors {
  private static final int HEADER_BYTES = 6;

  // Guava's serialised form: strategy, number of hash functions, number of longs, the longs.
  private static ByteBuffer serialised(int strategy, int count, int longs) {
    return ByteBuffer.allocate(HEADER_BYTES + 8 * longs).put((byte) strategy).put((byte) count).putInt(longs);
  }

  private static void write(int strategy, int count, int longs, String item) throws Exception {
    byte[] empty = serialised(strategy, count, longs).array();
    BloomFilter<byte[]> filter = BloomFilter.readFrom(new ByteArrayInputStream(empty), Funnels.byteArrayFunnel());
    filter.put(HexFormat.of().parseHex(item.substring(1)));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    filter.writeTo(out);
    ByteBuffer bits = ByteBuffer.wrap(out.toByteArray()).position(HEADER_BYTES);
    StringBuilder line = new StringBuilder();
    line.append("guava-").append(strategy == 0 ? 32 : 64).append(' ').append(64L * longs);
    line.append(' ').append(count).append(" 0 ").append(item);
    for (int at = 0; at < longs; ++at) {
      long word = bits.getLong();
      for (int bit = 0; bit < 64; ++bit) {
        if ((word >>> bit & 1) != 0) {
          line.append(' ').append(64L * at + bit);
        }
      }
    }
    System.out.println(line);
  }

  public static void main(String[] arguments) throws Exception {
    Scanner items = new Scanner(System.in);
    while (items.hasNextLine()) {
      String item = items.nextLine();
      for (int strategy = 0; strategy < 2; ++strategy) {
        write(strategy, 1, 1, item);
        write(strategy, 7, 150, item);
        write(strategy, 40, 300007, item);
      }
    }
  }
}
