import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/** Reads "input buckets" line by line, writes Guava's bucket for each. */
public final class GuavaJump {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    StringBuilder buckets = new StringBuilder();
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      long input = Long.parseLong(words[0]);
      buckets.append(Hashing.consistentHash(input, Integer.parseInt(words[1]))).append('\n');
    }
    System.out.print(buckets);
  }
}
